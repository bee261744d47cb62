package segment_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start opens a log on a new disk and runs steps on it.
func start(t testing.TB, opts segment.Options, steps ...step) (*session, *segmenttest.FS) {
	t.Helper()
	disk := segmenttest.New()
	s := newSession(disk, opts)
	must(t, s.open(promiseWritten))
	must(t, s.run(steps))
	return s, disk
}

// wantNames checks which files are in the log's directory.
func wantNames(t testing.TB, disk *segmenttest.FS, want ...string) {
	t.Helper()
	got := names(t, disk)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("files are %q, want %q", got, want)
	}
}

// names returns the names of the files in the log's directory, sorted, without leading zeros.
func names(t testing.TB, disk *segmenttest.FS) []string {
	t.Helper()
	var short []string
	for _, name := range disk.Paths() {
		rest, ok := strings.CutPrefix(name, logDir+"/")
		if !ok {
			t.Fatalf("file %s is outside the log's directory", name)
		}
		short = append(short, strings.TrimLeft(rest, "0"))
	}
	slices.Sort(short)
	return short
}

// failNext has the next call of a kind fail once.
func failNext(disk *segmenttest.FS, kind segmenttest.OpKind, err error) {
	disk.SetFault(segmenttest.FailNth(kind, disk.Calls(kind)+1, err))
}

// segmentPath is the path of a segment below 10.
func segmentPath(digit byte) string { return logDir + "/000000000" + string(digit) + ".seg" }
