package main

import (
	"context"
	"log/slog"
	"time"
)

// quietTime is for how long after the last fault of the disk the server may still log errors of background work.
const quietTime = 4 * time.Second

// listener is a slog.Handler that has the world hear what the server logs.
type listener struct {
	slog.Handler
	w *world
}

func (h listener) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError || h.Handler.Enabled(context.Background(), level)
}

func (h listener) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		h.w.heardError(r)
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h listener) WithAttrs(attrs []slog.Attr) slog.Handler {
	return listener{h.Handler.WithAttrs(attrs), h.w}
}

func (h listener) WithGroup(name string) slog.Handler {
	return listener{h.Handler.WithGroup(name), h.w}
}

// repeated are the reports of work that is done every few seconds, and that no fault of the past is a reason for.
var repeated = map[string]bool{
	"journal: old segments could not be dropped; trying again":             true,
	"journal: could not note how far it is synced; trying again":           true,
	"journal: spare files could not be removed; trying again":              true,
	"journal: those that were replaced could not be removed; trying again": true,
	"journal: the next segment could not be made; trying again":            true,
	"disk: its free space could not be measured; trying again":             true,
}

// heardError judges an error that the server has logged: without a fault of the disk there is no reason for it.
func (w *world) heardError(r slog.Record) {
	if !repeated[r.Message] || w.over.Load() {
		return
	}
	_, at := w.disk.faultsReported()
	if now := time.Now(); at.Add(quietTime).Before(now) && !w.disk.ranAway() {
		text := r.Message
		r.Attrs(func(a slog.Attr) bool {
			text += " " + a.String()
			return true
		})
		w.ledger.report("background", "at %s the server logs %q; the last fault came at %s", since(now), text, since(at))
	}
}
