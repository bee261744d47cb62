package overhttp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/client/backend/backendtest"
	"github.com/kestrelmq/kestrel/codec/burrow"
)

// answers serves each connection one request with a raw answer; "" closes it without one.
func answers(t *testing.T, answer string) (r *Remote, end func()) {
	t.Helper()
	l := backendtest.NewPipes()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if request, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				io.Copy(io.Discard, request.Body)
				io.WriteString(conn, answer)
			}
			conn.Close()
		}
	}()
	r = remote(t, l)
	return r, func() {
		r.Close()
		l.Close()
		<-done
	}
}

// answerOf is an answer of a server.
func answerOf(status int, header, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\n%sContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), header, len(body), body)
}

// TestRemoteErrors checks what a caller learns of answers that are none of the good ones, and of servers that are
// no Burrow.
func TestRemoteErrors(t *testing.T) {
	k := backend.Key{Queue: backend.Queue{Account: "a", Name: "q"}, ID: "m"}
	for _, tt := range []struct {
		name, answer string
		get, put     error
	}{
		{"no answer", "", backend.ErrUnavailable, backend.ErrUnknownOutcome},
		{"garbage", "220 smtp ready\r\n", backend.ErrUnavailable, backend.ErrUnknownOutcome},
		{"cut list", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[{\"id\":\"m\"},", backend.ErrUnavailable, backend.ErrUnknownOutcome},
		{"no list", answerOf(200, "", `{"id":1}`), backend.ErrUnavailable, backend.ErrUnknownOutcome},
		{"html", answerOf(200, "", "<html>"), backend.ErrUnavailable, backend.ErrUnknownOutcome},
		{"unknown encoding", answerOf(200, "", `[{"id":"m","body":"x","encoding":"rot13"}]`), backend.ErrUnavailable, backend.ErrUnknownOutcome},
		{"empty list", answerOf(200, "", "[]"), backend.ErrUnavailable, backend.ErrUnknownOutcome},
		{"list of nothing", answerOf(200, "", "[null]"), backend.ErrUnavailable, backend.ErrUnknownOutcome},
		{"nothing", "HTTP/1.1 204 No Content\r\n\r\n", backend.ErrUnavailable, nil},
		{"404 of another server", answerOf(404, "", "404 page not found\n"), backend.ErrUnavailable, backend.ErrUnavailable},
		{"404", answerOf(404, "", "Queue not found"), backend.ErrNoQueue, backend.ErrNoQueue},
		{"400", answerOf(400, "", "no"), backend.ErrInvalid, backend.ErrInvalid},
		{"401", answerOf(401, "", "no"), backend.ErrDenied, backend.ErrDenied},
		{"403", answerOf(403, "", "no"), backend.ErrDenied, backend.ErrDenied},
		{"409", answerOf(409, "", "no"), backend.ErrHeld, backend.ErrHeld},
		{"413", answerOf(413, "", "no"), backend.ErrTooLarge, backend.ErrTooLarge},
		{"429", answerOf(429, "", "no"), backend.ErrBusy, backend.ErrBusy},
		{"507", answerOf(507, "", "no"), backend.ErrFull, backend.ErrFull},
		{"503 of a journal", answerOf(503, "", "the journal failed"), backend.ErrUnavailable, backend.ErrUnknownOutcome},
		{"503 that did nothing", answerOf(503, "Retry-After: 1\r\n", "later"), backend.ErrUnavailable, backend.ErrUnavailable},
		{"504", answerOf(504, "", "no"), backend.ErrUnavailable, backend.ErrUnknownOutcome},
		{"redirect", answerOf(302, "Location: http://pipe/elsewhere\r\n", ""), backend.ErrUnavailable, backend.ErrUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, end := answers(t, tt.answer)
				defer end()
				if _, err := backend.Collect(r.Messages(t.Context(), k.Queue, backend.Match{Detail: backend.All})); !errors.Is(err, tt.get) {
					t.Errorf("Messages = %v, want %v", err, tt.get)
				}
				synctest.Wait() // the client sees that the connection has ended
				if _, err := r.Message(t.Context(), k, backend.IDs); !errors.Is(err, tt.get) {
					t.Errorf("Message = %v, want %v", err, tt.get)
				}
				synctest.Wait()
				if _, err := r.Put(t.Context(), k, []byte("x"), backend.Attributes{}); !errors.Is(err, tt.put) || tt.put == nil && err != nil {
					t.Errorf("Put = %v, want %v", err, tt.put)
				}
			})
		})
	}
}

// TestRemoteSlow checks that a server that does not answer, and one that cannot be reached, cost no more than the
// time they have.
func TestRemoteSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := backendtest.NewPipes()
		k := backend.Key{Queue: backend.Queue{Account: "a", Name: "q"}, ID: "m"}
		r, err := Open("http://pipe", Options{Dial: l.Dial, ReplyTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		var held []net.Conn
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				held = append(held, conn)
				go io.Copy(io.Discard, conn) // takes everything and says nothing
			}
		}()
		for _, tt := range []struct {
			wait, want time.Duration
		}{{0, time.Second}, {3 * time.Second, 4 * time.Second}} {
			began := time.Now()
			_, err = r.DeleteMessages(t.Context(), k.Queue, backend.Match{Wait: tt.wait})
			if took := time.Since(began); !errors.Is(err, backend.ErrUnknownOutcome) || took != tt.want {
				t.Errorf("DeleteMessages = %v after %v, want %v", err, took, tt.want)
			}
		}
		if err := r.Ping(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("Ping = %v", err)
		}
		l.Close()
		<-done
		for _, conn := range held {
			conn.Close()
		}
		_, err = r.Put(t.Context(), k, nil, backend.Attributes{})
		if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrUnknownOutcome) || !errors.Is(err, backendtest.ErrNobody) {
			t.Errorf("Put without a server = %v", err)
		}
		r.Close()
	})
}

// TestOpen checks addresses.
func TestOpen(t *testing.T) {
	for _, address := range []string{"", "host:80", "ftp://h", "http://", "http://h/x", "http://h?x", "http://u:p@h/x", "http://\x00"} {
		if r, err := Open(address, Options{}); err == nil {
			r.Close()
			t.Errorf("Open(%q) succeeds", address)
		} else if strings.Contains(err.Error(), "u:p@") {
			t.Errorf("the error %q has the password", err)
		}
	}
	r, err := Open("https://alice:s3cret@h:8443/", Options{})
	if err != nil || r.base != "https://h:8443" || r.user != "alice" || r.password != "s3cret" {
		t.Errorf("Open = %+v, %v", r, err)
	}
	r.Close()
}

// TestFrontDrain checks that Drain ends a wait with the answer that nothing matches, and that the wait of a list
// that has begun is none.
func TestFrontDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, f := front(t, memory(t))
		r := remote(t, l)
		q := backend.Queue{Account: "a", Name: "q"}
		got := make(chan error, 2)
		go func() {
			_, err := r.DeleteMessages(t.Context(), q, backend.Match{Wait: time.Minute})
			got <- err
		}()
		go func() {
			_, err := backend.Collect(r.Messages(t.Context(), q, backend.Match{Wait: time.Minute}))
			got <- err
		}()
		began := time.Now()
		<-time.After(time.Second)
		f.Drain()
		for range 2 {
			if err := <-got; !errors.Is(err, backend.ErrNoAccount) || time.Since(began) != time.Second {
				t.Errorf("a wait ends with %v after %v", err, time.Since(began))
			}
		}
		if _, err := r.DeleteMessages(t.Context(), q, backend.Match{Wait: time.Minute}); !errors.Is(err, backend.ErrNoAccount) {
			t.Errorf("a wait that begins later ends with %v", err)
		}
		f.Drain()
	})
}

// problemOf is the body of a refusal of version 1.1.
func problemOf(status int, detail string) string {
	return fmt.Sprintf(`{"type":"about:blank","title":%q,"status":%d,"detail":%q}`, http.StatusText(status), status, detail)
}

// TestFrontRefusals checks what a front refuses before it asks its back end, and how it words errors.
func TestFrontRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory(t)
		l, _ := front(t, store)
		modern := "501 " + problemOf(501, "This proxy speaks /v1.0. Send requests of /v1.1 to a kestrel server.")
		ask := func(raw string) (string, http.Header) {
			t.Helper()
			conn, err := l.Dial(context.Background(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go io.WriteString(conn, raw)
			reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("%q: %v", raw, err)
			}
			body, err := io.ReadAll(reply.Body)
			if err != nil {
				t.Fatalf("%q: %v", raw, err)
			}
			return strings.TrimSpace(fmt.Sprint(reply.StatusCode, " ", string(body))), reply.Header
		}
		for _, tt := range []struct{ raw, want string }{
			{"GET /v1.0/a/q HTTP/1.1\r\nHost: h\r\nOrigin: http://evil\r\n\r\n", "403 Requests of web pages are not served: there is an Origin header."},
			{"PUT /v1.0/a/q/m HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n", "413 The body is too large."},
			{"PUT /v1.0/a/q/m HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400 The body breaks off, or is not framed as its head says."},
			{"GET /v1.0/a/q/m%00 HTTP/1.1\r\nHost: h\r\n\r\n", "400 The path or a parameter holds a NUL character."},
			{"GET /v1.0/a/%ff HTTP/1.1\r\nHost: h\r\n\r\n", "400 The path or a parameter is not UTF-8."},
			{"PATCH /v1.0/a/q HTTP/1.1\r\nHost: h\r\n\r\n", "405"},
			{"GET http://elsewhere/v1.0 HTTP/1.1\r\nHost: h\r\n\r\n", "404 Account not found"},
			{"GET http://elsewhere HTTP/1.1\r\nHost: h\r\n\r\n", `200 ["v1.0"]`},
			{"GET //v1.0 HTTP/1.1\r\nHost: h\r\n\r\n", "404"},
			{"GET /v1.0/a/../b HTTP/1.1\r\nHost: h\r\n\r\n", "404 Account not found"},
			{"PUT /v1.0/a/q/m HTTP/1.1\r\nHost: h\r\n\r\n", "201"},
			{"PUT /v1.0/a/" + strings.Repeat("x", 300) + "/m HTTP/1.1\r\nHost: h\r\n\r\n", "400 The account or the queue has a name that is too long, or has characters that names cannot have."},
			{"DELETE /v1.0/a/q/@9.1 HTTP/1.1\r\nHost: h\r\n\r\n", "404 Message not found"},
			{"POST /v1.1/a/q/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 30\r\n\r\n" + `{"messages":[{"body":"lost"}]}`, modern},
			{"POST /v1.1/a/q/receive HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}", modern},
			{"GET /v1.1 HTTP/1.1\r\nHost: h\r\n\r\n", modern},
			{"GET http://elsewhere/v1.1/a HTTP/1.1\r\nHost: h\r\n\r\n", modern},
			{"DELETE /v1.1/a/q HTTP/1.1\r\nHost: h\r\n\r\n", modern},
			{"PUT /v1.1/a/q/messages/m HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n", modern},
			{"GET /openapi.json HTTP/1.1\r\nHost: h\r\n\r\n", modern},
			{"GET /v1.1/a HTTP/1.1\r\nHost: h\r\nOrigin: http://evil\r\n\r\n", "403 " + problemOf(403, burrow.TextOrigin)},
			{"GET /v1.10/a HTTP/1.1\r\nHost: h\r\n\r\n", "404"},
		} {
			if got, _ := ask(tt.raw); got != tt.want {
				t.Errorf("%.80q\ngets %s\nwant %s", tt.raw, got, tt.want)
			}
		}
		_, header := ask("POST /v1.1/a/q/messages HTTP/1.1\r\nHost: h\r\n\r\n")
		if kind, keep := header.Get("Content-Type"), header.Get("Cache-Control"); kind != "application/problem+json" || keep != "no-store" {
			t.Errorf("a refusal of version 1.1 has Content-Type %q and Cache-Control %q", kind, keep)
		}
		if all, err := store.Queues(t.Context(), "a", backend.Names{}); err != nil || len(all) != 1 {
			t.Errorf("the refused requests leave the queues %q, %v; want the one of the PUT", all, err)
		}
		_, header = ask("PUT /v1.0/a/q HTTP/1.1\r\nHost: h\r\n\r\n")
		if got, want := header.Get("Allow"), "GET, POST, DELETE"; got != want {
			t.Errorf("Allow is %q, want %q", got, want)
		}
		store.Close()
		if got, header := ask("PUT /v1.0/a/q/m HTTP/1.1\r\nHost: h\r\n\r\n"); !strings.HasPrefix(got, "503 ") || header.Get("Retry-After") == "" {
			t.Errorf("a back end that is closed: %s, %v", got, header)
		}
		<-time.After(time.Second) // net/http lingers where it refused a body
	})
}
