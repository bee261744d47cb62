package journalcmd

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/engine"
)

// killedDir is a data directory that a killed server left behind, with items in the queue work, and
// its only segment.
func killedDir(t *testing.T) (data, segment string) {
	t.Helper()
	data = filepath.Join(t.TempDir(), "data")
	p := clitest.Serve(t, "--data-dir", data)
	c := p.Dial()
	for range 5 {
		c.Ask("set work 7 0 5\nhello\n", "STORED\n")
	}
	p.Signal(os.Kill)
	if code := p.ExitCode(); code != -1 {
		t.Fatalf("exit code %d", code)
	}
	segments, err := filepath.Glob(filepath.Join(data, "journal", "*.seg"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("segments %q: %v", segments, err)
	}
	return data, segments[0]
}

// overwrite changes a byte of a file.
func overwrite(t *testing.T, file string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, offset); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{^b[0]}, offset); err != nil {
		t.Fatal(err)
	}
}

// lastBatch is the offset of the last batch in a segment whose file is not cut.
func lastBatch(t *testing.T, file string) int64 {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	i := strings.LastIndex(string(data), "hello")
	if i < 0 {
		t.Fatal("no item in the segment")
	}
	return int64(i)
}

// TestEndToEndVerify tests that verify says the same of a sound, a torn and a damaged journal as a server that starts
// on it. It changes nothing, and refuses a directory that is in use.
func TestEndToEndVerify(t *testing.T) {
	data, segment := killedDir(t)
	check := func(want int) (out, errs string) {
		t.Helper()
		before := clitest.FileState(t, data)
		code, out, errs := clitest.RunToEnd(t, "journal", "verify", "--data-dir", data)
		if code != want {
			t.Fatalf("verify = %d, want %d\n%s%s", code, want, out, errs)
		}
		if clitest.FileState(t, data) != before {
			t.Error("verify changed the data directory")
		}
		return out, errs
	}
	out, _ := check(cli.ExitOK)
	clitest.WantText(t, out, "sound: ", " segment", " 1 queue, 5 items\n")

	overwrite(t, segment, lastBatch(t, segment))
	_, errs := check(cli.ExitTorn)
	clitest.WantText(t, errs, "kestrel: torn at the end: "+segment+", offset ", ", 1 queue, 4 items")
	p := clitest.Serve(t, "--data-dir", data)
	torn := p.Saw(TornWarning)
	at := strconv.FormatFloat(torn["offset"].(float64), 'f', -1, 64)
	clitest.WantText(t, errs, segment+", offset "+at+": "+torn["reason"].(string))
	if items := p.Saw("queues recovered")["items"]; items != 4.0 {
		t.Errorf("the server found %v items, verify 4", items)
	}
	if code, _, errs := clitest.RunToEnd(t, "journal", "verify", "--data-dir", data); code != cli.ExitFailed {
		t.Errorf("verify beside a server = %d, %s", code, errs)
	} else {
		clitest.WantText(t, errs, "in use by another server")
	}
	p.Signal(os.Interrupt)
	p.ExitCode()

	overwrite(t, segment, 140) // in the first batch, which the next segment vouches for
	_, errs = check(cli.ExitDamage)
	code, _, started := clitest.RunToEnd(t, "serve", "--data-dir", data, "--memcache-port", "auto",
		"--thrift-port", "none", "--text-port", "none")
	lines := strings.Split(strings.TrimSpace(started), "\n")
	if last := lines[len(lines)-1]; code != cli.ExitFailed || last != strings.TrimSpace(errs) {
		t.Errorf("serve = %d, %q; verify says %q", code, last, errs)
	}
	clitest.WantText(t, errs, segment+": damaged at offset 136")
	_, errs = runJournal(t, cli.ExitDamage, "journal", "inspect", "--data-dir", data)
	clitest.WantText(t, errs, "damaged at offset 136")
}

func TestVerifyNothing(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, dir := range []string{missing, t.TempDir()} {
		for _, command := range []string{"verify", "inspect"} {
			_, errs := runJournal(t, cli.ExitFailed, "journal", command, "--data-dir", dir)
			clitest.WantText(t, errs, "there is no journal in "+dir)
		}
	}
	if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("looking made a directory: %v", err)
	}
	_, errs := runJournal(t, cli.ExitUsage, "journal", "verify")
	clitest.WantText(t, errs, "which data directory?")
	_, errs = runJournal(t, cli.ExitUsage, "journal", "mend")
	clitest.WantText(t, errs, `unknown command "mend" for "kestrel journal"`)
}

func TestInspect(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	e, err := engine.Open(engine.Options{
		Dir: data, SegmentSize: testSegment, Settings: engine.Settings{Default: engine.DefaultQueueOptions()},
	})
	if err != nil {
		t.Fatal(err)
	}
	items := []engine.Item{
		{Data: []byte("gone"), Added: 1},
		{Data: []byte("a\x00\n"), Added: clitest.AddedAt, Expiry: clitest.AddedAt + 1000, Flags: 9},
		{Data: []byte(strings.Repeat("x", 61)), Added: clitest.AddedAt + 2000},
	}
	for _, it := range items {
		if _, err := e.Restore(clitest.AddedAt, []byte("work"), it, engine.Standing{}); err != nil {
			t.Fatal(err)
		}
	}
	q, err := e.Queue("work")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.TryGet(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}

	out, _ := runJournal(t, cli.ExitOK, "journal", "inspect", "--data-dir", data, "--json")
	var in inspection
	if err := json.Unmarshal([]byte(out), &in); err != nil {
		t.Fatal(err)
	}
	want := inspectedQueue{"work", 2, 64, 4, clitest.AddedAt, clitest.AddedAt, clitest.AddedAt + 2000}
	bytes := int64(0)
	for _, g := range in.Segments { // a second one may have been prepared
		bytes += int64(g.End - g.Base)
	}
	if in.DataDir != data || in.Torn != nil || in.UnfinishedImport != nil || bytes == 0 ||
		in.JournalBytes != bytes || len(in.Queues) != 1 || in.Queues[0] != want {
		t.Errorf("inspect --json = %s", out)
	}
	out, _ = runJournal(t, cli.ExitOK, "journal", "inspect", "--data-dir", data)
	clitest.WantText(t, out, "data directory "+data+"\nthe journal ends cleanly\n", "\n0000000001 ",
		"           2               64            4 ", "2023-11-14 work\n", "in 1 queue\n")

	out, _ = runJournal(t, cli.ExitOK, "journal", "inspect", "work", "--data-dir", data)
	if want := "work 2: 3 bytes, added 2023-11-14T22:13:20Z, expires 2023-11-14T22:13:21Z, flags 9: " +
		"\"a\\x00\\n\"\n" + "work 3: 61 bytes, added 2023-11-14T22:13:22Z, expires never, flags 0: \"" +
		strings.Repeat("x", 60) + "\"…\n"; out != want {
		t.Errorf("inspect work = %s\nwant %s", out, want)
	}
	out, _ = runJournal(t, cli.ExitOK, "journal", "inspect", "work", "--data-dir", data, "--json")
	first, _, _ := strings.Cut(out, "\n")
	if want := `{"queue":"work","id":2,"added":1700000000000,"expiry":1700000001000,"flags":9,` +
		`"data":"YQAK"}`; first != want || strings.Count(out, "\n") != 2 {
		t.Errorf("inspect work --json = %s\nwant %s and another line", out, want)
	}
	_, errs := runJournal(t, cli.ExitFailed, "journal", "inspect", "nobody", "--data-dir", data)
	clitest.WantText(t, errs, `there is no queue "nobody"`)
}

func TestAgo(t *testing.T) {
	const hour = 3600_000
	for _, tt := range []struct {
		ms   engine.Time
		want string
	}{
		{-1, "in future"}, {0, "0s"}, {250, "250ms"}, {61_999, "1m1s"}, {47 * hour, "47h0m0s"},
		{49 * hour, "2d"}, {1000 * 24 * hour, "1000d"},
	} {
		if got := ago(clitest.AddedAt, clitest.AddedAt-tt.ms); got != tt.want {
			t.Errorf("ago(%d ms) = %s, want %s", tt.ms, got, tt.want)
		}
	}
}
