package admin

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/engine/backup"
)

// takeBackup answers a backup, as a tar archive. The body of the request has the keys of files that the client
// has, 8 bytes each, little-endian.
func takeBackup(s *Server, r *http.Request) (any, error) {
	server, err := s.server()
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || len(body)%8 != 0 {
		return nil, badRequestf("the body is not a list of keys, 8 bytes each")
	}
	have := make(map[uint64]bool, len(body)/8)
	for ; len(body) > 0; body = body[8:] {
		have[binary.LittleEndian.Uint64(body)] = true
	}
	pace := r.URL.Query().Get("pace")
	if pace != "" && pace != "full" {
		return nil, badRequestf("pace: %q is not a pace: use full, or leave it out", pace)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.ending, cancel)()
		s.log.Info("backup begins", "peer", r.RemoteAddr, "held_files", len(have))
		out := &patientWriter{ResponseWriter: w, s: s}
		w.Header().Set("Content-Type", "application/x-tar")
		to := io.Writer(out)
		if pace == "" {
			to = backup.GiveWay(ctx, out, server.Engine())
		}
		switch err := backup.Stream(ctx, to, server.Engine(), have); {
		case err == nil:
			s.log.Info("backup is complete", "bytes", out.bytes)
		case out.bytes == 0:
			s.log.Warn("backup refused", "err", err)
			plain(w, backupStatus(err), err.Error())
		default:
			s.log.Error("backup broken off", "bytes", out.bytes, "err", err)
			if r.Context().Err() == nil {
				http.NewResponseController(w).Flush() // it may say why
			}
			panic(http.ErrAbortHandler) // the archive must not pass for a whole one
		}
	}), nil
}

// backupStatus is the status code of a backup that cannot begin.
func backupStatus(err error) int {
	switch {
	case errors.Is(err, engine.ErrBackupRuns):
		return http.StatusConflict
	case errors.Is(err, engine.ErrBackupDisk):
		return http.StatusInsufficientStorage
	case errors.Is(err, engine.ErrClosed):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// patientWriter gives the client some time for each write, and not for the whole answer.
type patientWriter struct {
	http.ResponseWriter
	s     *Server
	bytes int64
}

// Unwrap is for http.ResponseController.
func (p *patientWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Write implements http.ResponseWriter.
func (p *patientWriter) Write(b []byte) (int, error) {
	p.s.limitAnswer(p.ResponseWriter)
	n, err := p.ResponseWriter.Write(b)
	p.bytes += int64(n)
	return n, err
}
