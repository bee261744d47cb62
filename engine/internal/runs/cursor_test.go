package runs

import (
	"testing"

	"github.com/kestrelmq/kestrel/segment"
)

// TestCursor goes through a frame, to the end of its run, and on to the next run.
func TestCursor(t *testing.T) {
	chain := []*State{{LastID: 4}, {LastID: 9}, {LastID: 20}}
	c := At(chain[1], 7)
	if c != (Cursor[State]{chain[1], segment.RunStart, 7}) {
		t.Errorf("At = %+v", c)
	}
	c.Pass(Tag{FirstID: 5, LastID: 9}, 512)
	if c != (Cursor[State]{chain[1], 512, 10}) {
		t.Errorf("behind a frame that ends with item 9 the Cursor is %+v", c)
	}
	if next := c.Next(chain); next != (Cursor[State]{chain[2], segment.RunStart, 10}) {
		t.Errorf("behind the run the Cursor is %+v", next)
	}
}
