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
)

// TestFrontCut checks that a PUT that is cut off anywhere stores nothing, and that the whole one does.
func TestFrontCut(t *testing.T) {
	const head = "PUT /v1.0/a/q/m?ttl=60&hide=0 HTTP/1.1\r\nHost: localhost\r\n"
	for _, tt := range []struct{ name, in string }{
		{"length", head + "Content-Length: 5\r\n\r\nhello"},
		{"chunked", head + "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nX: y\r\n\r\n"},
		{"empty", head + "\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory(t)
				l, _ := front(t, store)
				for cut := range len(tt.in) {
					conn, err := l.Dial(context.Background(), "", "")
					if err != nil {
						t.Fatal(err)
					}
					go io.Copy(io.Discard, conn) // a reply may come for what was cut off
					if _, err := io.WriteString(conn, tt.in[:cut]); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					conn.Close()
					synctest.Wait()
					if all, err := store.Accounts(t.Context(), backend.Names{}); !errors.Is(err, backend.ErrNoAccount) {
						t.Fatalf("cut at %d of %q: there are the accounts %q, %v", cut, tt.in, all, err)
					}
				}
				conn, err := l.Dial(context.Background(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				go io.WriteString(conn, tt.in)
				if reply, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || reply.StatusCode != http.StatusCreated {
					t.Errorf("the whole of %q = %v, %v, want 201", tt.in, reply, err)
				}
				conn.Close()
				if all, err := store.Accounts(t.Context(), backend.Names{}); err != nil || len(all) != 1 {
					t.Errorf("the whole of %q leaves the accounts %q, %v", tt.in, all, err)
				}
				<-time.After(time.Second) // net/http lingers where it refused a body
			})
		})
	}
}
