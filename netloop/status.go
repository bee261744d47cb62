package netloop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Status is what a server lets clients do. The order is by strictness.
type Status int32

const (
	// Up allows everything.
	Up Status = iota
	// WriteAvoid allows everything, but asks producers to go elsewhere.
	WriteAvoid
	// ReadOnly refuses puts, flushes and deletes.
	ReadOnly
	// Quiescent refuses fetches too.
	Quiescent
	// Down is the status of a server that is stopping. It cannot be asked for, nor left.
	Down
)

var statusNames = [...]string{"Up", "WriteAvoid", "ReadOnly", "Quiescent", "Down"}

func (s Status) String() string { return statusNames[s] }

// BlocksReads reports whether fetches are refused.
func (s Status) BlocksReads() bool { return s >= Quiescent }

// BlocksWrites reports whether puts, flushes and deletes are refused.
func (s Status) BlocksWrites() bool { return s >= ReadOnly }

var (
	// ErrUnknownStatus is returned for a name that is no status.
	ErrUnknownStatus = errors.New("netloop: not one of Up, WriteAvoid, ReadOnly and Quiescent")
	// ErrForbiddenStatus is returned for a status that cannot be asked for.
	ErrForbiddenStatus = errors.New("netloop: nobody can set or leave the status Down: a server has it while it stops")
)

// ParseStatus returns the status called name, in any case.
func ParseStatus(name string) (Status, error) {
	for i, n := range statusNames {
		if strings.EqualFold(n, name) {
			return Status(i), nil
		}
	}
	return 0, fmt.Errorf("%w: %q", ErrUnknownStatus, name)
}

// A Publisher makes a server's status known elsewhere, for example in a membership service. The server calls Publish
// when it starts, before it enforces a stricter status, and after it has loosened one. An error undoes the change.
// One call is made at a time.
type Publisher interface{ Publish(Status) error }

// serverStatus holds the status that was asked for and the one that is enforced. A change to a
// stricter status is enforced only after the grace period, so that clients can see it coming.
type serverStatus struct {
	file  string // "" keeps nothing
	grace time.Duration
	log   logger

	enforced  atomic.Int32
	requested atomic.Int32

	publishers []Publisher // called with mu held

	mu      sync.Mutex
	pending *time.Timer // running grace period; nil if there is none; guarded by mu
}

// newServerStatus starts with the status stored in the status file, or with the default if that
// says none.
func newServerStatus(opts Options) *serverStatus {
	k := &serverStatus{
		file: opts.StatusFile, grace: opts.StatusGrace, log: opts.Logger, publishers: opts.Publishers,
	}
	status := opts.DefaultStatus
	if k.file != "" {
		stored, err := readStatus(k.file)
		switch {
		case err == nil:
			status = stored
		case !errors.Is(err, os.ErrNotExist):
			k.log.Warn("status file cannot be used", "file", k.file, "err", err, "status", status.String())
		}
	}
	k.enforced.Store(int32(status))
	k.requested.Store(int32(status))
	return k
}

func readStatus(file string) (Status, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	status, err := ParseStatus(strings.TrimRight(line, "\r"))
	if err == nil && status == Down {
		err = ErrForbiddenStatus
	}
	return status, err
}

// Requested returns the status that was asked for last.
func (k *serverStatus) Requested() Status { return Status(k.requested.Load()) }

// Enforced returns the status that operations are held to.
func (k *serverStatus) Enforced() Status { return Status(k.enforced.Load()) }

// set changes the status and stores it. A change to an equal or stricter status is dropped, with a
// warning and no error, while a grace period runs. It waits for the disk and for publishers. It
// returns ErrForbiddenStatus for Down, and for any status after goDown.
func (k *serverStatus) set(to Status) error {
	if to == Down {
		return ErrForbiddenStatus
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	from := k.Requested()
	if from == Down {
		return ErrForbiddenStatus // of a server that stops
	}
	if to < from {
		return k.loosen(from, to)
	}
	if k.pending != nil {
		k.log.Warn("status change refused: a grace period is running",
			"status", from.String(), "refused", to.String())
		return nil
	}
	if err := k.publish(to); err != nil {
		return errors.Join(fmt.Errorf("publish status %s: %w", to, err), k.publish(from))
	}
	k.requested.Store(int32(to))
	if to == from || k.grace == 0 {
		k.enforced.Store(int32(to))
	} else {
		k.startGrace(to)
	}
	k.store(to)
	return nil
}

// loosen allows more than before, at once. The caller holds mu.
func (k *serverStatus) loosen(from, to Status) error {
	k.requested.Store(int32(to))
	if err := k.publish(to); err != nil {
		k.requested.Store(int32(from))
		return errors.Join(fmt.Errorf("publish status %s: %w", to, err), k.publish(from))
	}
	if k.pending != nil {
		k.pending.Stop()
		k.pending = nil
	}
	k.enforced.Store(int32(to))
	k.store(to)
	return nil
}

// startGrace enforces to after the grace period. The caller holds mu.
func (k *serverStatus) startGrace(to Status) {
	var timer *time.Timer
	timer = time.AfterFunc(k.grace, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.pending == timer {
			k.enforced.Store(int32(to))
			k.pending = nil
		}
	})
	k.pending = timer
}

// goDown refuses everything from now on. It is never stored.
func (k *serverStatus) goDown() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pending != nil {
		k.pending.Stop()
		k.pending = nil
	}
	k.requested.Store(int32(Down))
	k.enforced.Store(int32(Down))
	if err := k.publish(Down); err != nil {
		k.log.Warn("status could not be published", "status", Down.String(), "err", err)
	}
}

// publishFirst publishes the status that the server starts with. Publishers that fail are not
// waited for.
func (k *serverStatus) publishFirst() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.publish(k.Requested()); err != nil {
		k.log.Error("status could not be published", "status", k.Requested().String(), "err", err)
	}
}

func (k *serverStatus) publish(s Status) error {
	for _, p := range k.publishers {
		if err := p.Publish(s); err != nil {
			return err
		}
	}
	return nil
}

// store writes the status file. A failure costs only what the next start would know.
func (k *serverStatus) store(s Status) {
	if k.file == "" {
		return
	}
	if err := writeFileAtomically(k.file, []byte(s.String()+"\n")); err != nil {
		k.log.Error("status could not be stored: the next start will not know it", "file", k.file, "err", err)
	}
}

// writeFileAtomically replaces a file, so that after a crash it holds either the old or the new
// content.
func writeFileAtomically(name string, data []byte) error {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	fresh := name + ".new"
	os.Remove(fresh) // of a server that was killed, and perhaps of another user
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(fresh) // of no effect once it is renamed
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(fresh, name); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// requestShutdown passes on that a client asked the server to stop.
func (s *Server) requestShutdown() {
	if f := s.opts.RequestShutdown; f != nil {
		time.AfterFunc(shutdownDelay, f)
	}
}

// shutdownDelay is how long after a client asked for it the server begins to stop, so that replies
// to others, and its own, leave first.
const shutdownDelay = 100 * time.Millisecond
