package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOrderJudge reads traces written by hand: of a server that keeps the promise, and of servers
// that break it in one way each.
func TestOrderJudge(t *testing.T) {
	const (
		write  = "7  pwrite64(9</d/1.seg>, \"\\1\\0o-00-000000-\", 20, 64) = 20\n"
		sync   = "8  fdatasync(9</d/1.seg>) = 0\n"
		stored = "9  sendto(5<TCP:[1.1.1.1:1->2.2.2.2:2]>, \"STORED\\r\\n\", 8, 0, NULL, 0) = 8\n"
	)
	for _, tt := range []struct {
		name, trace string
		good        bool
	}{
		{"write, sync, reply", write + sync + stored, true},
		{"calls in two halves", "7  pwrite64(9</d/1.seg>, \"o-00-000000-\", 20, 64 <unfinished ...>\n" +
			"7  <... pwrite64 resumed>)  = 20\n" +
			"8  fdatasync(9</d/1.seg> <unfinished ...>\n" +
			"8  <... fdatasync resumed>)  = 0\n" + stored, true},
		{"kill in the reply", write + sync + strings.Replace(stored, "= 8", "= ?", 1), true},
		{"kill in the reply, in two halves",
			write + sync + strings.Replace(stored, ") = 8", " <unfinished ...>", 1), true},
		{"no sync", write + stored, false},
		{"reply before the sync", write + stored + sync, false},
		{"sync before the write", sync + write + stored, false},
		{"sync of another file", write + "8  fdatasync(9</d/2.seg>) = 0\n" + stored, false},
		{"sync that fails", write +
			"8  fdatasync(9</d/1.seg>) = -1 EIO (x) (INJECTED)\n" + stored, false},
		{"sync that does not end", write + "8  fdatasync(9</d/1.seg> <unfinished ...>\n" + stored, false},
		{"write that ends behind the beginning of the sync",
			"7  pwrite64(9</d/1.seg>, \"o-00-000000-\", 20, 64 <unfinished ...>\n" +
				"8  fdatasync(9</d/1.seg> <unfinished ...>\n" +
				"7  <... pwrite64 resumed>)  = 20\n" +
				"8  <... fdatasync resumed>)  = 0\n" + stored, false},
		{"write that fails", "7  pwrite64(9</d/1.seg>, \"o-00-000000-\", 20, 64) = -1 EIO (x)\n" +
			sync + stored, false},
	} {
		tr := newTestTrial(t, "", 1)
		file := filepath.Join(tr.dir, "trace")
		if err := os.WriteFile(file, []byte(tt.trace), 0o600); err != nil {
			t.Fatal(err)
		}
		o := &order{t: tr, items: make(map[string]*orderItem), sockets: map[string]*orderConn{
			"1.1.1.1:1->2.2.2.2:2": {put: []string{"o-00-000000-"}},
		}}
		o.acked.Store(1)
		if err := o.judge(file); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if good := len(tr.violations()) == 0; good != tt.good {
			t.Errorf("%s: accepted %t, want %t", tt.name, good, tt.good)
		}
	}
}

// A trace that lacks replies which clients got shows nothing.
func TestOrderJudgeIncomplete(t *testing.T) {
	o := &order{t: newTestTrial(t, "", 1)}
	o.acked.Store(1)
	file := filepath.Join(o.t.dir, "trace")
	if err := os.WriteFile(file, []byte("7  +++ killed by SIGKILL +++\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.judge(file); err == nil || !strings.Contains(err.Error(), "clients got 1") {
		t.Errorf("judge = %v, want an error", err)
	}
}
