package engine

import (
	"testing"
	"time"
)

// TestScanMeetsWhatComesBack gives all items of a queue another expiry, piece by piece, and returns a lease between two
// pieces, of an item before the Scan. The Scan meets the item, as it meets those that were ready from the start.
func TestScanMeetsWhatComesBack(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		const items, ready = 1000, 200
		e, _ := newQuiet(t)
		for range items {
			mustPut(t, e, "q", "x")
		}
		var receipts []uint64
		for range items {
			var about Delivery
			f := FetchRequest{Access: Lease, Lease: time.Hour, Delivery: &about}
			if _, err := e.Fetch(Now(), []byte("q"), f, &copied{}); err != nil {
				t.Fatal(err)
			}
			receipts = append(receipts, about.Receipt)
		}
		back := func(id int) {
			t.Helper()
			if _, err := e.ReturnLease(Now(), []byte("q"), receipts[id-1], Return{How: Release}); err != nil {
				t.Fatal(err)
			}
		}
		for id := 1; id <= ready; id++ {
			back(id)
		}
		w := e.Altering([]byte("q"), "", Match{Hidden: hidden}, Alter{SetExpiry: true, Expiry: Now().After(time.Hour)})
		for piece := 0; w.Do(Now(), nil, 1); piece++ {
			w.Wait()
			if piece == 0 {
				back(700)
			}
		}
		n, _, err := w.Result()
		if want := map[bool]int{false: ready + 1, true: items}[hidden]; err != nil || n != want {
			t.Errorf("hidden %t: %d items are met, want %d: %v", hidden, n, want, err)
		}
		verify(t, e)
	}
}
