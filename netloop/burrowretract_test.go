package netloop

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestBurrowRetractLong has the commit fail behind removals whose replies are longer than what is sent at once. The
// error takes the place of all of a reply, and what the client asks next gets its own reply.
func TestBurrowRetractLong(t *testing.T) {
	for _, path := range []string{"q/m?detail=body", "q/m?detail=all", "q?detail=all"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newTestServer(t, Options{}, defaults())
				c := ts.dial(burrowProtocol{})
				large := strings.Repeat("x", 1<<20)
				c.feed(fmt.Appendf(nil, "PUT /v1.0/a/q/m HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(large), large), 1<<20)
				synctest.Wait()
				out, _ := c.received()
				if !bytes.HasPrefix(out, []byte("HTTP/1.1 201 ")) {
					t.Fatalf("PUT = %.200q", out)
				}
				c.consume(len(out))
				ts.fs.SetFault(segmenttest.FailAllFrom(segmenttest.OpWriteAt, ts.fs.Calls(segmenttest.OpWriteAt)+1, syscall.EIO))
				const head = " HTTP/1.1\r\nHost: localhost\r\n\r\n"
				c.feed([]byte("DELETE /v1.0/a/"+path+head+"GET /"+head), 1<<20)
				synctest.Wait()
				out, ended := c.received()
				if ended {
					t.Error("the connection has ended")
				}
				in := bufio.NewReader(bytes.NewReader(out))
				for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
					r, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Errorf("want a reply of status %d: %v", want, err)
						break
					}
					body, err := io.ReadAll(r.Body)
					if r.StatusCode != want || err != nil {
						t.Errorf("reply = %d %.100q, %v, want %d", r.StatusCode, body, err, want)
					}
				}
				if rest, _ := io.ReadAll(in); len(rest) > 0 {
					t.Errorf("%d bytes follow the replies: %.100q", len(rest), rest)
				}
				c.hangUp()
				ts.fs.SetFault(nil)
				ts.stopFailed()
			})
		})
	}
}

// TestBurrowRetractAhead has the commit of two requests fail that came at once, while a job words the reply to the
// second one. Neither reply says that anything was done.
func TestBurrowRetractAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		c := ts.dial(burrowProtocol{})
		put := func(id, body string) string {
			return fmt.Sprintf("PUT /v1.0/a/q/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", id, len(body), body)
		}
		c.feed([]byte(put("m", strings.Repeat("x", 1<<20))), 2<<20)
		synctest.Wait()
		out, _ := c.received()
		c.consume(len(out))
		ts.fs.SetFault(segmenttest.FailAllFrom(segmenttest.OpWriteAt, ts.fs.Calls(segmenttest.OpWriteAt)+1, syscall.EIO))
		c.feed([]byte(put("n", "small")+"DELETE /v1.0/a/q/m?detail=all HTTP/1.1\r\nHost: localhost\r\n\r\n"), 2<<20)
		synctest.Wait()
		out, _ = c.received()
		in := bufio.NewReader(bytes.NewReader(out))
		for _, request := range []string{"PUT", "DELETE"} {
			r, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Errorf("%s: %v", request, err)
				break
			}
			if io.Copy(io.Discard, r.Body); r.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("%s = %d, want %d", request, r.StatusCode, http.StatusServiceUnavailable)
			}
		}
		c.hangUp()
		ts.fs.SetFault(nil)
		ts.stopFailed()
	})
}
