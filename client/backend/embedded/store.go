package embedded

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/engine"
)

// Options configure a store. The zero Options are good for most.
type Options struct {
	// Sync says when a method returns: the zero value is engine.SyncAlways, when the disk has what it did.
	Sync engine.SyncPolicy
	// MemoryLimit bounds what messages take in memory, in bytes; what is beyond that is on disk. Zero is
	// a part of the machine's memory.
	MemoryLimit int64
	// Logger takes what an operator should know; nil discards it.
	Logger *slog.Logger
}

// Store is a [backend.Backend] over an engine.
type Store struct {
	engine *engine.Engine
	temp   string // a directory that Close removes; "": none
	closed atomic.Bool
}

// Open opens the store in a directory, which it makes if it is missing. It returns engine.ErrLocked if
// another process has it, and a *segment.CorruptionError if it is damaged. Close the store.
func Open(dir string, o Options) (*Store, error) {
	options := engine.DefaultQueueOptions()
	options.Sync = o.Sync
	return open(dir, options, o)
}

// Memory opens a store that keeps nothing. What does not fit into memory is in a temporary directory for as long as the
// store is open. A process that is killed leaves the directory behind, and the next Memory of this user removes it.
func Memory(o Options) (*Store, error) {
	options := engine.DefaultQueueOptions()
	options.KeepJournal = false
	return openTemporary(options, o)
}

func open(dir string, options engine.QueueOptions, o Options) (*Store, error) {
	e, err := engine.Open(engine.Options{
		Dir: dir, Settings: engine.Settings{Default: options}, MemoryLimit: o.MemoryLimit, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Store{engine: e}, nil
}

// Close implements [backend.Backend]. It syncs what is not synced.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	err := s.engine.Close()
	if s.temp != "" {
		err = cmp.Or(err, os.RemoveAll(s.temp))
	}
	return err
}

// Ping implements [backend.Backend].
func (s *Store) Ping(ctx context.Context) error { return s.begin(ctx) }

// begin returns why a call cannot begin.
func (s *Store) begin(ctx context.Context) error {
	if s.closed.Load() {
		return backend.ErrClosed
	}
	return context.Cause(ctx)
}

// commit waits until what t stands for is as safe as the queue's options make it.
func (s *Store) commit(t engine.Ticket) error { return worded(s.engine.Commit(t)) }

// nameOf returns the name that the engine has for q.
func nameOf(q backend.Queue) []byte {
	return engine.AppendAccountQueue(nil, []byte(q.Account), []byte(q.Name))
}

// missing returns the error for the outermost thing that is missing.
func (s *Store) missing(q backend.Queue) error {
	now := engine.Now()
	queue := s.engine.HasItems(now, nameOf(q))
	return backend.Missing(queue || s.engine.AccountHasItems(now, []byte(q.Account)), queue)
}

// texts are what the errors of the engine mean to callers, in the words of a server.
var texts = []struct {
	err  error
	kind error
	text string
}{
	{engine.ErrQueueFull, backend.ErrFull, burrow.TextQueueFull},
	{engine.ErrItemTooLarge, backend.ErrTooLarge, burrow.TextTooLarge},
	{engine.ErrBadName, backend.ErrInvalid, burrow.TextBadName},
	{engine.ErrBadKey, backend.ErrInvalid, burrow.TextBadID},
	{engine.ErrDelayTooLong, backend.ErrInvalid, burrow.TextHideTooLong},
	{engine.ErrHeld, backend.ErrHeld, burrow.TextHeld},
	{engine.ErrTooManyKeys, backend.ErrFull, "too many keys"},
	{engine.ErrTooManyQueues, backend.ErrFull, "too many queues"},
	{engine.ErrOutOfDisk, backend.ErrFull, "out of disk space"},
	{engine.ErrOutOfMemory, backend.ErrUnavailable, "out of memory"},
	{engine.ErrBacklog, backend.ErrUnavailable, "backlog cannot be read"},
	{engine.ErrWithheld, backend.ErrUnavailable, "queue is withheld"},
	{engine.ErrNotAdmitted, backend.ErrDenied, "the queue admits another client only"},
}

// worded returns what an error of the engine means to callers.
func worded(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, engine.ErrClosed):
		return backend.ErrClosed
	case errors.Is(err, engine.ErrJournal):
		return backend.Unknown(err)
	}
	for _, t := range texts {
		if errors.Is(err, t.err) {
			return backend.Refuse(t.kind, t.text)
		}
	}
	return err
}
