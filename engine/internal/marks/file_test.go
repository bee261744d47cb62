package marks

import (
	"slices"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// TestBeside asks what a checkpoint records beside a file, and without one.
func TestBeside(t *testing.T) {
	gone := idset.BitmapOf(idset.Set{idset.Between(1, 100), idset.One(110), idset.One(112), idset.One(114)})
	part := Ragged(&gone, 50)
	file := &File{End: 7, IDs: idset.BitmapOf(idset.Set{idset.One(110), idset.One(112), idset.One(120)})}
	file.ID.Number = 3
	for _, tt := range []struct {
		file *File
		want idset.Set
		cost int64
	}{
		{file, idset.Set{idset.Between(1, 100), idset.One(114)}, RangeCost},
		{nil, gone.Ranges(), 3 * RangeCost},
	} {
		others, cost := tt.file.Beside(&gone, &part)
		if !slices.Equal(others.Ranges(), tt.want) || cost != tt.cost {
			t.Errorf("beside %v: %v, which costs %d, want %v and %d", tt.file, others.Ranges(), cost, tt.want, tt.cost)
		}
	}
	if got := file.Record(); got.End != 7 || got.Count != 3 || got.Run != file.ID || (*File)(nil).Record() != (record.Marks{}) {
		t.Errorf("the journal says %+v", got)
	}
}
