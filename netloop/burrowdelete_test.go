package netloop

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/engine"
)

// TestDeleteShowsWhatItRemoves overwrites a message while a DELETE reads it from the disk: the new one is shown, or stays.
func TestDeleteShowsWhatItRemoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := defaults()
		set.Default.MaxMemorySize = 1
		ts := newTestServer(t, Options{}, set)
		p := &burrowPlayer{ts: ts, clients: map[byte]*testClient{}, size: 1 << 20}
		for _, id := range []string{"m0", "m1", "m2"} {
			if err := p.play("PUT /v1.0/a/q/" + id + " < old -> 201"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		c := p.client('A')
		name := engine.AppendAccountQueue(nil, []byte("a"), []byte("q"))
		ts.do(func() {
			ts.loop.begin()
			c.session.receive([]byte("DELETE /v1.0/a/q/m1?detail=body HTTP/1.1\r\nHost: localhost\r\n\r\n"))
			ts.loop.tick()
			ts.server.jobs.Wait()
			put := engine.PutRequest{Data: []byte("new"), Extra: &engine.PutExtra{Key: []byte("m1")}}
			if _, err := ts.opts.Engine.PutAll(engine.Now(), name, []engine.PutRequest{put}); err != nil {
				t.Error(err)
			}
			ts.loop.begin()
			ts.loop.tick()
		})
		synctest.Wait()
		out, _ := c.received()
		_, there := ts.opts.Engine.Find(engine.Now(), name, []byte("m1"))
		if !there && !bytes.HasSuffix(out, []byte("new")) {
			t.Errorf("the new message is gone, and the reply is %q", out)
		}
		c.hangUp()
		ts.stop()
	})
}
