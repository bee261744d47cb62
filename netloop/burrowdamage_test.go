package netloop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestBurrowChangesBeforeDamage removes, or hides, all messages of a queue on a disk that fails from some read on. A
// message that was changed is shown, also if those behind it cannot be read: no other request would show it.
func TestBurrowChangesBeforeDamage(t *testing.T) {
	for _, request := range []string{"DELETE /v1.0/a/q?detail=id", "POST /v1.0/a/q?hide=60&detail=id"} {
		shown := map[int]bool{}
		for reads := range 6 {
			synctest.Test(t, func(t *testing.T) {
				set := defaults()
				set.Default.MaxMemorySize = 1
				ts := newTestServer(t, Options{}, set)
				c := ts.dial(burrowProtocol{})
				ask := func(request, body string) (ids []string) {
					t.Helper()
					c.feed(fmt.Appendf(nil, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", request, len(body), body), 1<<20)
					synctest.Wait()
					out, _ := c.received()
					r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), nil)
					if err != nil {
						t.Errorf("%s: %q, %v", request, out, err)
						return nil
					}
					if r.StatusCode == http.StatusOK {
						if err := json.NewDecoder(r.Body).Decode(&ids); err != nil {
							t.Errorf("%s: %v", request, err)
						}
					}
					c.consume(len(out))
					return ids
				}
				all := []string{"m0", "m1", "m2", "m3"}
				for _, id := range all { // each but the first is a frame of its own
					ask("PUT /v1.0/a/q/"+id, "x")
				}
				ts.fs.SetFault(segmenttest.FailAllFrom(segmenttest.OpReadAt, ts.fs.Calls(segmenttest.OpReadAt)+reads, syscall.EIO))
				first := ask(request, "")
				shown[len(first)] = true
				ts.fs.SetFault(nil)
				if got := append(first, ask(request, "")...); !slices.Equal(got, all) {
					t.Errorf("%s, %d reads: %q are shown, and then %q", request, reads, first, got[len(first):])
				}
				c.hangUp()
				ts.stop()
			})
		}
		if !shown[0] || len(shown) < 2 {
			t.Errorf("%s: the numbers of messages that were shown before the disk failed are %v", request, shown)
		}
	}
}
