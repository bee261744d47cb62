package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestReadiness follows a server from before its engine is open to its end.
func TestReadiness(t *testing.T) {
	progress := new(engine.Progress)
	tt := startUnready(t, Options{Progress: progress, Reload: func() error {
		t.Error("reloaded before there was anything to reload")
		return nil
	}})
	tt.expect("/readyz", 503,
		"not ready\njournal_bytes: 0\njournal_bytes_read: 0\npercent: 0.0\nphase: replaying\n")
	tt.expect("/readyz.json", 503, `{"response":"not ready","phase":"replaying","journal_bytes_read":0,`+
		`"journal_bytes":0,"percent":"0.0"}`+"\n")
	tt.expect("/healthz", 200, "ok\nphase: replaying\n")
	tt.expect("/ping.txt", 200, "pong\n")
	for _, path := range []string{"/stats", "/stats?period=60", "/stats?namespace=x", "/status"} {
		tt.expect(path, 503, "error processing command: the server is not ready; see /readyz\n")
	}
	tt.expectPost("/reload", 503, "error processing command: the server is not ready; see /readyz\n")
	tt.attach(netloop.Options{}, defaults())
	tt.expect("/readyz", 200, "ready\nphase: serving\nstatus: Up\n")
	if err := tt.server.SetStatus(netloop.ReadOnly); err != nil {
		t.Fatal(err)
	}
	tt.expect("/readyz", 200, "ready\nphase: serving\nstatus: ReadOnly\n")
	if err := tt.server.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	tt.expect("/readyz", 503, "not ready\nphase: stopping\nstatus: Down\n")
	tt.expect("/healthz", 200, "ok\n")
}

// TestReadinessDuringReplay asks from inside the replay of a journal, whenever it is read.
func TestReadinessDuringReplay(t *testing.T) {
	fsys := segmenttest.New()
	opts := engine.Options{Dir: "data", FS: fsys, SegmentSize: 4096, Settings: defaults()}
	e, err := engine.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	q, err := e.Queue("q")
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := q.Put(make([]byte, 1000), engine.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	opts.Progress = new(engine.Progress)
	tt := startUnready(t, Options{Progress: opts.Progress})
	seen := make(map[string]bool)
	fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if op.Kind == segmenttest.OpReadAt {
			got := tt.get("/readyz")
			if got.code != 503 || !strings.Contains(got.body, "phase: replaying") {
				t.Errorf("readyz during the replay = %d %q", got.code, got.body)
			}
			seen[got.body] = true
		}
		return segmenttest.Fault{}
	})
	if e, err = engine.Open(opts); err != nil {
		t.Fatal(err)
	}
	fsys.SetFault(nil)
	defer e.Close()
	if len(seen) < 5 {
		t.Errorf("progress came in %d steps only: %v", len(seen), seen)
	}
}

// TestHealthOfJournal breaks the disk.
func TestHealthOfJournal(t *testing.T) {
	tt := start(t, Options{}, netloop.Options{}, defaults())
	tt.put("q", "x")
	tt.expect("/healthz", 200, "ok\n")
	tt.fs.SetFault(segmenttest.FailAllFrom(segmenttest.OpDatasync, 0, syscall.EIO))
	ticket, err := tt.engine.Put(engine.Now(), []byte("q"), engine.PutRequest{Data: []byte("y")})
	if err != nil {
		t.Fatal(err)
	}
	if tt.engine.Commit(ticket) == nil {
		t.Fatal("a failing sync is a success")
	}
	got := tt.get("/healthz")
	if got.code != 200 || !strings.HasPrefix(got.body, "ok\njournal: fails: puts are refused: ") {
		t.Errorf("healthz with a broken journal = %d %q", got.code, got.body)
	}
	st := tt.stats("/stats")
	if st.Counters["fsync_error_EIO"] == 0 || st.Gauges["journal_failing"] != 1 {
		t.Errorf("stats with a broken journal = %v %v", st.Counters, st.Gauges)
	}
}

func TestHealthOfFullDisk(t *testing.T) {
	tt := start(t, Options{}, netloop.Options{}, defaults())
	tt.fs.SetFault(segmenttest.FailAllFrom(segmenttest.OpAllocate, 0, syscall.ENOSPC))
	for range 200 { // until the journal needs another segment
		ticket, err := tt.engine.Put(engine.Now(), []byte("q"), engine.PutRequest{Data: make([]byte, 1000)})
		if err != nil {
			break
		}
		if tt.engine.Commit(ticket) != nil {
			break
		}
	}
	got := tt.get("/healthz")
	if got.code != 200 || got.body != "ok\ndisk: full: puts are refused until there is room\n" {
		t.Errorf("healthz with a full disk = %d %q", got.code, got.body)
	}
}

// TestJudge tests what makes a server unhealthy, and what only needs to be known.
func TestJudge(t *testing.T) {
	broken := fmt.Errorf("%w: %w", engine.ErrJournal, syscall.EIO)
	full := fmt.Errorf("%w: %w: %w", engine.ErrJournal, engine.ErrOutOfDisk, syscall.ENOSPC)
	for _, tt := range []struct {
		name  string
		h     engine.Health
		loops error
		good  bool
		about string // keys of the details
	}{
		{"nothing", engine.Health{}, nil, true, ""},
		{"a full disk", engine.Health{DiskFull: true}, nil, true, "disk"},
		{"a write that found no room", engine.Health{DiskFull: true, JournalError: full}, nil, true, "disk"},
		{"a failed sync", engine.Health{JournalError: broken}, nil, true, "journal"},
		{"a failed sync on a full disk", engine.Health{DiskFull: true, JournalError: broken}, nil, true,
			"disk journal"},
		{"a loop that hangs", engine.Health{}, context.DeadlineExceeded, false, "loops"},
		{"all of it", engine.Health{DiskFull: true, JournalError: broken}, context.DeadlineExceeded, false,
			"loops disk journal"},
	} {
		got := judge(tt.h, tt.loops)
		var about []string
		for _, m := range got.details {
			about = append(about, m.key)
		}
		if got.good != tt.good || strings.Join(about, " ") != tt.about || (got.word == "ok") != tt.good {
			t.Errorf("%s: %+v, want good: %t, and to hear about %q", tt.name, got, tt.good, tt.about)
		}
	}
}

// TestReadinessDiscovery tests that /readyz and the metrics say where the server is announced. If the membership
// service is away, the server is ready all the same.
func TestReadinessDiscovery(t *testing.T) {
	var state Discovery
	tt := start(t, Options{Discovery: func() Discovery { return state }}, netloop.Options{}, defaults())
	for _, step := range []struct {
		state Discovery
		want  string
	}{
		{Discovery{Read: true, Write: true}, "ready\nannounced: read and write\nphase: serving\nstatus: Up\n"},
		{Discovery{Read: true}, "ready\nannounced: read\nphase: serving\nstatus: Up\n"},
		{Discovery{Err: errors.New("no server answers")}, "ready\nannounced: none\n" +
			"discovery: fails: no server answers\nphase: serving\nstatus: Up\n"},
	} {
		state = step.state
		tt.expect("/readyz", 200, step.want)
		families := tt.scrape("/metrics")
		announced := map[string]float64{`set="read"`: boolGauge(state.Read), `set="write"`: boolGauge(state.Write)}
		if got := series(families["kestrel_announced"]); !maps.Equal(got, announced) {
			t.Errorf("kestrel_announced of %+v is %v", state, got)
		}
		failing := map[string]float64{"": boolGauge(state.Err != nil)}
		if got := series(families["kestrel_discovery_failing"]); !maps.Equal(got, failing) {
			t.Errorf("kestrel_discovery_failing of %+v is %v", state, got)
		}
	}
}
