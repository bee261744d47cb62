package engine

import "testing"

// TestPutAllIsPutForEach tests a put that expires items into another queue, which in turn expires items into the
// first. All of them are there before the next item, however many items one call puts.
func TestPutAllIsPutForEach(t *testing.T) {
	data := func(words ...string) (puts []PutRequest) {
		for _, w := range words {
			puts = append(puts, PutRequest{Data: []byte(w)})
		}
		return puts
	}
	for _, atOnce := range []bool{false, true} {
		o := testOptions(newFS())
		ping, pong := o.Settings.Default, o.Settings.Default
		ping.ExpireTo, pong.ExpireTo = "pong", "ping"
		o.Settings.Queues = map[string]QueueOptions{"ping": ping, "pong": pong}
		e, name, now := openQuiet(t, o), []byte("ping"), Now()
		for _, from := range []string{"ping", "pong"} {
			expired := PutRequest{Data: []byte("of " + from), Expiry: now - 1}
			if _, err := e.Put(now, []byte(from), expired); err != nil {
				t.Fatal(err)
			}
		}
		if atOnce {
			if s, err := e.PutAll(now, name, data("a", "b", "c")); s.Count != 3 || err != nil {
				t.Fatalf("PutAll = %d, %v", s.Count, err)
			}
		} else {
			for _, p := range data("a", "b", "c") {
				if _, err := e.Put(now, name, p); err != nil {
					t.Fatal(err)
				}
			}
		}
		wantItems(t, e, "ping", "a of pong b c")
		wantItems(t, e, "pong", "of ping")
	}
}
