package netloop

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// publishLog is a Publisher that remembers what it got, and the state of the keeper at that time.
type publishLog struct {
	keeper *serverStatus
	got    []string
	fail   map[Status]bool
}

var errNobody = errors.New("nobody listens")

func (p *publishLog) Publish(s Status) error {
	p.got = append(p.got, fmt.Sprintf("%v requested=%v enforced=%v",
		s, p.keeper.Requested(), p.keeper.Enforced()))
	if p.fail[s] {
		return errNobody
	}
	return nil
}

func newTeller(opts Options) *publishLog {
	p := &publishLog{fail: make(map[Status]bool)}
	opts.Logger = slog.New(slog.DiscardHandler)
	opts.Publishers = []Publisher{p}
	p.keeper = newServerStatus(opts)
	return p
}

func (p *publishLog) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	if fmt.Sprint(p.got) != fmt.Sprint(want) {
		t.Errorf("%s: got %q, want %q", what, p.got, want)
	}
	p.got = nil
}

// TestPublish tests when publishers get a change of status. They get a stricter one before clients notice, a looser
// one before it is enforced, the first at the start, and Down at the end.
func TestPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTeller(Options{StatusGrace: time.Minute, DefaultStatus: WriteAvoid})
		p.keeper.publishFirst()
		p.expect(t, "at the start", "WriteAvoid requested=WriteAvoid enforced=WriteAvoid")
		if err := p.keeper.set(ReadOnly); err != nil {
			t.Fatal(err)
		}
		p.expect(t, "stricter", "ReadOnly requested=WriteAvoid enforced=WriteAvoid")
		if err := p.keeper.set(Quiescent); err != nil {
			t.Fatal(err)
		}
		p.expect(t, "refused while a grace period runs")
		if err := p.keeper.set(Up); err != nil {
			t.Fatal(err)
		}
		p.expect(t, "looser", "Up requested=Up enforced=WriteAvoid")
		<-time.After(2 * time.Minute)
		if got := p.keeper.Enforced(); got != Up {
			t.Errorf("enforced after the grace period that was cancelled = %v", got)
		}
		p.keeper.goDown()
		p.expect(t, "at the end", "Down requested=Down enforced=Down")
	})
}

// TestDownIsFinal tests that nothing brings back a server that has begun to stop. Neither a request for a looser
// status does, nor the end of a grace period.
func TestDownIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTeller(Options{StatusGrace: time.Minute, StatusFile: filepath.Join(t.TempDir(), "status")})
		if err := p.keeper.set(ReadOnly); err != nil {
			t.Fatal(err)
		}
		p.keeper.goDown()
		p.got = nil
		for _, to := range []Status{Up, ReadOnly, Quiescent} {
			if err := p.keeper.set(to); !errors.Is(err, ErrForbiddenStatus) {
				t.Errorf("set %v when the server is Down = %v, want %v", to, err, ErrForbiddenStatus)
			}
		}
		<-time.After(2 * time.Minute)
		if r, e := p.keeper.Requested(), p.keeper.Enforced(); r != Down || e != Down {
			t.Errorf("requested %v, enforced %v, want Down", r, e)
		}
		p.expect(t, "when the server is Down")
		if stored, err := readStatus(p.keeper.file); err != nil || stored != ReadOnly {
			t.Errorf("stored status = %v, %v, want that of before", stored, err)
		}
	})
}

// TestPublishFails tests that a change that cannot be published is undone, and not stored.
func TestPublishFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "status")
	p := newTeller(Options{StatusFile: file, DefaultStatus: ReadOnly})
	for _, to := range []Status{Quiescent, Up} {
		p.fail[to] = true
		if err := p.keeper.set(to); !errors.Is(err, errNobody) {
			t.Errorf("set(%v) = %v, want the publisher's error", to, err)
		}
		if r, e := p.keeper.Requested(), p.keeper.Enforced(); r != ReadOnly || e != ReadOnly {
			t.Errorf("after a failed change to %v: requested %v, enforced %v", to, r, e)
		}
		if last := p.got[len(p.got)-1]; last != "ReadOnly requested=ReadOnly enforced=ReadOnly" {
			t.Errorf("after a failed change to %v the last one published was %s", to, last)
		}
		if status, err := readStatus(file); err == nil {
			t.Errorf("a failed change to %v stored %v", to, status)
		}
	}
	if err := p.keeper.set(WriteAvoid); err != nil {
		t.Fatal(err)
	}
	if status, err := readStatus(file); status != WriteAvoid || err != nil {
		t.Errorf("stored %v, %v", status, err)
	}
}

// TestStatusFileLeftover tests that what a killed server left of its status file does not stay, and is in nobody's way.
func TestStatusFileLeftover(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "status.new"), []byte("ReadO"), 0o400); err != nil {
		t.Fatal(err)
	}
	p := newTeller(Options{StatusFile: filepath.Join(dir, "status")})
	if err := p.keeper.set(WriteAvoid); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(dir)
	if status, bad := readStatus(filepath.Join(dir, "status")); bad != nil || status != WriteAvoid || err != nil || len(names) != 1 {
		t.Errorf("stored %v, %v; the directory has %v, %v, want the status alone", status, bad, names, err)
	}
}
