package repair

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// TestIDsIn asks which ids a gap in a run can have held. These are the ids between the frames around it, unless the
// gap's tag is whole and says so itself.
func TestIDsIn(t *testing.T) {
	tagged := func(first, last uint64) *segment.Tag {
		tag := runs.Tag{FirstID: first, LastID: last}.Encode()
		return &tag
	}
	gap := func(offset int64, batches bool, tag *segment.Tag) segment.RunGap {
		return segment.RunGap{Gap: segment.Gap{Offset: offset, Batches: batches}, Tag: tag}
	}
	r := &run{recorded: runs.State{FirstID: 10, LastID: 99}, frames: []checkedFrame{
		{100, runs.Tag{FirstID: 20, LastID: 29}}, {300, runs.Tag{FirstID: 60, LastID: 69}},
	}}
	for _, tt := range []struct {
		name string
		gap  segment.RunGap
		more []segment.RunGap // others of the run
		want idset.Range
	}{
		{name: "held nothing", gap: gap(200, false, nil), want: idset.Between(1, 0)},
		{name: "its tag is whole", gap: gap(200, true, tagged(30, 35)), want: idset.Between(30, 35)},
		{name: "in front", gap: gap(50, true, nil), want: idset.Between(10, 19)},
		{name: "between frames", gap: gap(200, true, nil), want: idset.Between(30, 59)},
		{name: "behind", gap: gap(400, true, nil), want: idset.Between(70, 99)},
		{
			name: "between gaps", gap: gap(200, true, nil), want: idset.Between(36, 49),
			more: []segment.RunGap{gap(150, true, tagged(30, 35)), gap(250, true, tagged(50, 59))},
		},
		{
			name: "beside a gap that says nothing", gap: gap(200, true, nil), want: idset.Between(30, 59),
			more: []segment.RunGap{gap(150, true, nil)},
		},
	} {
		r.gaps = append(tt.more, tt.gap)
		if got := r.idsIn(tt.gap); got != tt.want {
			t.Errorf("%s: idsIn = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestTraces has a replay report ids on both sides of a gap.
func TestTraces(t *testing.T) {
	lost := func(tr Traces) string { return fmt.Sprint(tr.missing, tr.unsure) }
	for _, tt := range []struct {
		name  string
		whole bool
		ids   func(*Salvage, *Traces)
		want  string
	}{
		{"a jump without a gap", true, func(v *Salvage, tr *Traces) { v.Follow(tr, 5, 9) }, "[] 0"},
		{"a jump past a gap", true, func(v *Salvage, tr *Traces) {
			v.gap(segment.Gap{Batches: true})
			v.Follow(tr, 5, 9)
		}, "[{5 8}] 0"},
		{"a gap that held no records", true, func(v *Salvage, tr *Traces) {
			v.gap(segment.Gap{})
			v.Follow(tr, 5, 9)
		}, "[] 0"},
		{"no jump past a gap, and one behind", true, func(v *Salvage, tr *Traces) {
			v.gap(segment.Gap{Batches: true})
			v.Follow(tr, 5, 5)
			v.Follow(tr, 6, 9)
		}, "[] 0"},
		{"an id that more may follow", true, func(v *Salvage, tr *Traces) {
			v.gap(segment.Gap{Batches: true})
			v.Reach(tr, 5, 7)
			v.Follow(tr, 7, 9)
		}, "[{5 8}] 0"},
		{"all from the first id on", true, func(v *Salvage, tr *Traces) {
			v.gap(segment.Gap{Batches: true})
			v.Follow(tr, 1, 4)
		}, "[{1 3}] 0"},
		{"the front was cut", false, func(v *Salvage, tr *Traces) {
			v.gap(segment.Gap{Batches: true})
			v.Follow(tr, 1, 4)
		}, "[] 3"},
	} {
		v, tr := &Salvage{d: &Damage{}, whole: tt.whole}, Traces{}
		if tt.ids(v, &tr); lost(tr) != tt.want {
			t.Errorf("%s: lost %s, want %s", tt.name, lost(tr), tt.want)
		}
	}
	var none *Salvage
	tr := Traces{}
	none.Reach(&tr, 1, 4)
	none.Follow(&tr, 1, 4)
	if lost(tr) != "[] 0" || none.Rescue(&tr, segment.RunID{}) != nil {
		t.Errorf("a start that repairs nothing has noted %s", lost(tr))
	}
}

// TestRescue saves items of a run's gaps while the journal still has them.
func TestRescue(t *testing.T) {
	sound, damaged := segment.RunID{Number: 1}, segment.RunID{Number: 2}
	v := &Salvage{d: &Damage{}, runs: map[segment.RunID]*run{
		sound: {}, damaged: {lost: idset.Set{idset.Between(5, 6)}},
	}}
	tr := Traces{}
	if v.Rescue(&tr, sound) != nil {
		t.Error("a sound run has something to rescue")
	}
	rescue, data := v.Rescue(&tr, damaged), []byte("x")
	for id := uint64(4); id < 8; id++ {
		rescue(item.Item{ID: id, Data: data})
	}
	data[0] = 'y'
	if len(tr.saved) != 2 || string(tr.saved[5].Data) != "x" || string(tr.saved[6].Data) != "x" {
		t.Errorf("saved %v, want copies of items 5 and 6", tr.saved)
	}
}

// TestFreeName looks for names that no queue has.
func TestFreeName(t *testing.T) {
	taken := map[string]bool{"recovered-7": true, "recovered-8": true, "recovered-8-2": true}
	var got []string
	for _, number := range []uint64{6, 7, 8, 7} {
		got = append(got, freeName(taken, number))
	}
	if want := []string{"recovered-6", "recovered-7-2", "recovered-8-3", "recovered-7-3"}; !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
}
