package runs

import (
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
)

// TestPage reads frames of a chain one behind the other, and out of their order.
func TestPage(t *testing.T) {
	r, chain := newChain(t)
	chain[1].LastID = 7 // the journal says so, and the last item was cut out while it was written
	var (
		p      Page
		places [3]Places
	)
	for _, tt := range []struct {
		run               int
		id                uint64
		first, last, many uint64
	}{
		{0, 1, 1, 2, 2},
		{0, 3, 3, 4, 2}, // the next one
		{1, 5, 5, 6, 2}, // of the next run
		{1, 7, 7, 7, 0}, // nothing is left there
		{2, 8, 8, 9, 2},
		{0, 4, 3, 4, 2}, // back, into the middle
		{0, 2, 1, 2, 2},
	} {
		if p.Covers(chain[tt.run].File, tt.id) {
			t.Errorf("%+v: it is there before it is read", tt)
		}
		err := p.Read(r, chain[tt.run], &places[tt.run], tt.id)
		many := uint64(0)
		item.EachImage(p.Body, p.FirstID, func(item.Item) bool { many++; return true })
		if err != nil || p.FirstID != tt.first || p.LastID != tt.last || many != tt.many {
			t.Errorf("%+v: %d items from %d to %d, %v", tt, many, p.FirstID, p.LastID, err)
		}
		if !p.Covers(chain[tt.run].File, tt.id) || p.Covers(chain[tt.run].File, tt.last+1) {
			t.Errorf("%+v: it covers something else", tt)
		}
	}
	if chain[0].Path = "none"; p.Read(r, chain[0], new(Places), 1) == nil {
		t.Error("a run that is not there was read")
	}
}
