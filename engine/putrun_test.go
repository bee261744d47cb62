package engine

import "testing"

// TestPutAllIsPutForEach: what a put expires into another queue, here the same one, is there before the
// next item, however many come at once.
func TestPutAllIsPutForEach(t *testing.T) {
	data := func(words ...string) (puts []PutRequest) {
		for _, w := range words {
			puts = append(puts, PutRequest{Data: []byte(w)})
		}
		return puts
	}
	for _, atOnce := range []bool{false, true} {
		e, _ := newQuiet(t, func(o *QueueOptions) { o.ExpireTo = "dead" })
		name, now := []byte("dead"), Now()
		expired := PutRequest{Data: []byte("expired"), Expiry: now - 1}
		if _, err := e.Put(now, name, expired); err != nil {
			t.Fatal(err)
		}
		if atOnce {
			if n, _, err := e.PutAll(now, name, data("a", "b", "c")); n != 3 || err != nil {
				t.Fatalf("PutAll = %d, %v", n, err)
			}
		} else {
			for _, p := range data("a", "b", "c") {
				if _, err := e.Put(now, name, p); err != nil {
					t.Fatal(err)
				}
			}
		}
		wantItems(t, e, "dead", "a expired b c")
	}
}
