package overhttp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/client/backend/backendtest"
)

// TestStallInReply has a server begin each answer, and say no more. Every call ends.
func TestStallInReply(t *testing.T) {
	k := backend.Key{Queue: backend.Queue{Account: "a", Name: "q"}, ID: "m"}
	for _, tt := range []struct {
		name, answer string
		call         func(ctx context.Context, r *Remote) error
		want         error
	}{
		{"Put", "HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\n", func(ctx context.Context, r *Remote) error {
			_, err := r.Put(ctx, k, []byte("x"), backend.Attributes{})
			return err
		}, nil}, // the server has said that it has the message
		{"Message", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"id", func(ctx context.Context, r *Remote) error {
			_, err := r.Message(ctx, k, backend.All)
			return err
		}, backend.ErrUnavailable},
		{"DeleteMessages", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n[{\"id\":\"m\"},", func(ctx context.Context, r *Remote) error {
			_, err := r.DeleteMessages(ctx, k.Queue, backend.Match{Detail: backend.IDs})
			return err
		}, backend.ErrUnknownOutcome},
		{"Messages", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n[\"m\",", func(ctx context.Context, r *Remote) error {
			_, err := backend.Collect(r.Messages(ctx, k.Queue, backend.Match{Detail: backend.IDs}))
			return err
		}, backend.ErrUnavailable},
		{"a refusal", "HTTP/1.1 507 Insufficient Storage\r\nContent-Length: 50\r\n\r\nfull", func(ctx context.Context, r *Remote) error {
			_, err := r.Put(ctx, k, []byte("x"), backend.Attributes{})
			return err
		}, backend.ErrUnknownOutcome},
		{"Ping", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n[", func(ctx context.Context, r *Remote) error {
			return r.Ping(ctx)
		}, backend.ErrUnavailable},
		{"Accounts", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n[\"a\",", func(ctx context.Context, r *Remote) error {
			_, err := r.Accounts(ctx, backend.Names{})
			return err
		}, backend.ErrUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := backendtest.NewPipes()
				served := make(chan struct{})
				go func() {
					defer close(served)
					conn, err := l.Accept()
					if err != nil {
						return
					}
					defer conn.Close()
					in := bufio.NewReader(conn)
					if request, err := http.ReadRequest(in); err == nil {
						io.Copy(io.Discard, request.Body)
						io.WriteString(conn, tt.answer)
						io.Copy(io.Discard, in)
					}
				}()
				r := remote(t, l)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				err := tt.call(ctx, r)
				if took := time.Since(began); !errors.Is(err, tt.want) || took > 2*DefaultReplyTimeout {
					t.Errorf("%v after %v, want %v within two ReplyTimeouts", err, took, tt.want)
				}
				r.Close()
				l.Close()
				<-served
			})
		})
	}
}
