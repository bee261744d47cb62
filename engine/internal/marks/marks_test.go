package marks

import (
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestGolden writes a frame as FORMAT.md has it.
func TestGolden(t *testing.T) {
	ids := idset.BitmapOf(idset.Set{idset.One(5), idset.Between(7, 10), idset.One(300)})
	tag, body := tagOf(&ids), ids.AppendTo(nil)
	const wantTag = "0500000000000000" + "2c01000000000000" + "06000040" + "00000000"
	const wantBody = "00" + "03" + "0500" + "0103" + "a10200"
	if got := hex.EncodeToString(tag[:]); got != wantTag {
		t.Errorf("the tag is %s, want %s", got, wantTag)
	}
	if got := hex.EncodeToString(body); got != wantBody {
		t.Errorf("the body is %s, want %s", got, wantBody)
	}
	if back, err := Parse(tag, body); err != nil || !slices.Equal(back.Ranges(), ids.Ranges()) {
		t.Errorf("%v comes back, %v", back.Ranges(), err)
	}
}

// write makes a file of ids.
func write(t *testing.T, fsys segment.FS, ids *idset.Bitmap) (f runs.File, end int64) {
	t.Helper()
	w, err := segment.CreateRun(fsys, runs.Path("", 7), 7, segment.Cached)
	if err != nil {
		t.Fatal(err)
	}
	c := segment.NewCoder(segment.CodecNone)
	defer c.Close()
	if err := errors.Join(Write(w, c, ids), w.Sync()); err != nil {
		t.Fatal(err)
	}
	f, end = runs.File{Path: w.Path(), ID: w.ID()}, w.End()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return f, end
}

// TestRead reads sets of one frame and of many, and files that are not what the journal says.
func TestRead(t *testing.T) {
	const block = 1 << 16
	for name, every := range map[string]uint64{"one frame": 3, "many frames": 5*block + 1} {
		var ids idset.Bitmap
		for id := uint64(1); id < 60*block && id < 40_000*every; id += every {
			ids.Add(id)
		}
		fsys := segmenttest.New()
		f, end := write(t, fsys, &ids)
		r := runs.NewReader(fsys, nil, 1)
		got, err := Read(r, f, end, ids.Len())
		if err != nil || !slices.Equal(got.Ranges(), ids.Ranges()) {
			t.Errorf("%s: %d ids come back of %d, %v", name, got.Len(), ids.Len(), err)
		}
		if _, err := Read(r, f, end, ids.Len()+1); !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("%s: one too few: %v, want a CorruptionError", name, err)
		}
		if _, err := Read(r, f, end+8, ids.Len()); !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("%s: cut short: %v, want a CorruptionError", name, err)
		}
		r.Close()
		if err := fsys.Remove(f.Path); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(r, f, end, ids.Len()); !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("%s: missing: %v, want a CorruptionError", name, err)
		}
		r.Close()
	}
}

// FuzzParse: what a frame decodes to is what is written, and nothing else decodes.
func FuzzParse(f *testing.F) {
	for _, s := range []idset.Set{{idset.One(1)}, {idset.Between(5, 900), idset.One(1 << 40)}} {
		ids := idset.BitmapOf(s)
		tag := tagOf(&ids)
		f.Add(tag[:], ids.AppendTo(nil))
		f.Add(tag[:], ids.AppendTo(nil)[1:])
	}
	f.Add(make([]byte, segment.TagSize), []byte(nil))
	f.Fuzz(func(t *testing.T, b, body []byte) {
		if len(b) != segment.TagSize {
			return
		}
		ids, err := Parse(segment.Tag(b), body)
		if err != nil {
			return
		}
		if tag := tagOf(&ids); tag != segment.Tag(b) || string(ids.AppendTo(nil)) != string(body) || ids.IsEmpty() {
			t.Errorf("%x, %x decode to %d ids, which are another frame", b, body, ids.Len())
		}
	})
}
