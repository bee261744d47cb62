package runs

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/segment"
)

// TestIndexKeys finds the keys of runs that have them in frames of their own. Another run has them with another seed: its
// items are read.
func TestIndexKeys(t *testing.T) {
	fsys, d := newRuns(t)
	seed, other := keyindex.NewSeed(), keyindex.NewSeed()
	r := NewReader(fsys, nil, 2)
	defer r.Close()
	var files []KeyFile
	for i, s := range []keyindex.Seed{other, seed, seed} {
		var state State
		first := uint64(10*i + 1)
		m, err := d.Make(segment.Cached, nil, func(w *segment.RunWriter) (err error) {
			w.Extend(true)
			p := Packer{W: w, Coder: segment.NewCoder(segment.CodecNone), Keys: keyindex.Gatherer{Seed: &s}}
			defer p.Coder.Close()
			for id := first; id < first+10; id++ {
				it := item.Item{ID: id, Data: []byte("x")}
				err = errors.Join(err, p.Add(it.With(nil, keyOf(id), "", 0)))
			}
			state, err = p.End()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, KeyFile{
			File: m.File, Keyed: true, First: segment.RunStart, End: m.End,
			OnDisk: func(id uint64) bool { return id != 25 },
			Each:   func(f func(item.Item)) error { return r.Each(m.File, state.End, f) },
		})
	}
	var keys *keyindex.Keys
	index := func() *keyindex.Keys {
		if keys == nil {
			keys = keyindex.NewKeys(new(atomic.Int64))
		}
		return keys
	}
	var unusable []File
	if err := r.IndexKeys(files, index, func(f File, _ error) { unusable = append(unusable, f) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(unusable, []File{files[0].File}) {
		t.Errorf("the keys of %v cannot be used, want those of %v", unusable, files[0].File)
	}
	if keys.Seed != seed || keys.Len() != 8 {
		t.Errorf("%d keys are there, want 8", keys.Len())
	}
	for id := uint64(1); id <= 30; id++ {
		got, ok := keys.Of(keyOf(id))
		if !ok || got != newestOf(id) {
			t.Errorf("key %s has item %d, %t, want %d", keyOf(id), got, ok, newestOf(id))
		}
	}
}

// keyOf is the key of an item: there are eight.
func keyOf(id uint64) []byte { return []byte{'a' + byte(id%8)} }

// newestOf is the newest item on disk of the key that an item has.
func newestOf(id uint64) uint64 {
	if id%8 == 1 { // 25 is not on disk
		return 17
	}
	return 30 - (30-id)%8
}
