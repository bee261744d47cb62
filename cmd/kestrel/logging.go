package main

import (
	"io"
	"log/slog"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
)

// newLogger returns a logger that writes to w in one of the formats.
func newLogger(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if format == config.FormatJSON {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
