package idset

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// universe is how many ids the model knows: some blocks.
const universe = 3*blockIDs + 500

// drawIDs draws a range of ids in which lists become bits and the other way round.
func drawIDs(t *rapid.T) Range {
	first := rapid.SampledFrom([]uint64{0, 1, 100, blockIDs - 3, blockIDs, 3 * blockIDs}).Draw(t, "base") +
		rapid.Uint64Range(0, 200).Draw(t, "first")
	n := rapid.SampledFrom([]uint64{1, 1, 2, 70, maxList / 2, maxList + 1, blockIDs + 10}).Draw(t, "length")
	return Between(first, min(first+n, universe)-1)
}

// TestBitmapModel does the same to a Bitmap and to a list of what is there.
func TestBitmapModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Bitmap
		var want [universe]bool
		set := func(r Range, step uint64, to bool) (changed uint64) {
			for id := r.First; id <= r.Last; id += step {
				if want[id] != to {
					changed++
				}
				want[id] = to
			}
			return changed
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				r := One(drawIDs(t).Last)
				if b.Add(r.First) != (set(r, 1, true) > 0) {
					t.Fatalf("Add(%d) is not what is new", r.First)
				}
			},
			"remove": func(t *rapid.T) {
				r := One(drawIDs(t).First)
				if b.Remove(r.First) != (set(r, 1, false) > 0) {
					t.Fatalf("Remove(%d) is not what was there", r.First)
				}
			},
			"add range": func(t *rapid.T) {
				r := drawIDs(t)
				b.AddRange(r)
				set(r, 1, true)
			},
			"thin out": func(t *rapid.T) {
				r, step := drawIDs(t), rapid.Uint64Range(1, 3).Draw(t, "step")
				var others Bitmap
				for id := r.First; id <= r.Last; id += step {
					others.Add(id)
				}
				if got, n := b.RemoveAll(&others), set(r, step, false); got != n {
					t.Fatalf("RemoveAll = %d, want %d", got, n)
				}
			},
			"remove range": func(t *rapid.T) {
				r := drawIDs(t)
				if got, n := b.RemoveRange(r), set(r, 1, false); got != n {
					t.Fatalf("RemoveRange(%v) = %d, want %d", r, got, n)
				}
			},
			"": func(t *rapid.T) {
				if rapid.IntRange(0, 7).Draw(t, "compare") == 0 {
					compareBitmap(t, &b, &want)
				}
			},
		})
		compareBitmap(t, &b, &want)
	})
}

func compareBitmap(t *rapid.T, b *Bitmap, want *[universe]bool) {
	var ids []uint64
	for id, is := range want {
		if is {
			ids = append(ids, uint64(id))
		}
	}
	got := make([]uint64, 0, len(ids))
	b.Each(func(id uint64) bool {
		got = append(got, id)
		return true
	})
	if !slices.Equal(got, ids) || b.Len() != uint64(len(ids)) {
		t.Fatalf("%d ids are there, Len = %d, want %d", len(got), b.Len(), len(ids))
	}
	r, n := drawIDs(t), uint64(0)
	for id := r.First; id <= r.Last; id++ {
		if want[id] {
			n++
		}
	}
	if got := b.Count(r); got != n || b.Has(r.First) != want[r.First] {
		t.Fatalf("Count(%v) = %d, want %d; Has = %t", r, got, n, b.Has(r.First))
	}
	if all := b.Ranges(); len(ids) < 1000 && !slices.Equal(all, Of(slices.Clone(ids))) {
		t.Fatalf("Ranges = %v", all)
	}
	if len(ids) > 0 {
		first, _ := b.First()
		last, _ := b.Last()
		if first != ids[0] || last != ids[len(ids)-1] {
			t.Fatalf("ids are from %d to %d, want %d to %d", first, last, ids[0], ids[len(ids)-1])
		}
	}
	encoded := b.AppendTo([]byte("x"))
	back, err := ParseBitmap(encoded[1:])
	if err != nil || !bytes.Equal(back.AppendTo([]byte("x")), encoded) {
		t.Fatalf("of %d ids in %d bytes came %d back, %v", b.Len(), len(encoded)-1, back.Len(), err)
	}
	if int64(len(encoded)-1) > b.MaxEncoded() {
		t.Fatalf("%d bytes, MaxEncoded = %d", len(encoded)-1, b.MaxEncoded())
	}
	c := b.Clone()
	if c.Add(r.First); b.Has(r.First) != want[r.First] {
		t.Fatal("a clone shares memory")
	}
}

// TestBitmapGolden writes a set as FORMAT.md has it.
func TestBitmapGolden(t *testing.T) {
	var b Bitmap
	for _, r := range []Range{{5, 5}, {7, 10}, {300, 300}, {3*blockIDs + 1, 3*blockIDs + 2}} {
		b.AddRange(r)
	}
	const want = "00" + "03" + "0500" + "0103" + "a10200" + "02" + "01" + "0101"
	if got := hex.EncodeToString(b.AppendTo(nil)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var odd Bitmap
	for id := uint64(1); id < blockIDs; id += 2 {
		odd.Add(id)
	}
	if got := odd.AppendTo(nil); !bytes.Equal(got, append([]byte{0, 0}, bytes.Repeat([]byte{0xaa}, blockIDs/8)...)) {
		t.Errorf("every other id takes %d bytes, %x …", len(got), got[:8])
	}
}

// TestBitmapMemory: a million ids take a bit each, side by side or every other one gone; and two bytes each if
// they lie far apart.
func TestBitmapMemory(t *testing.T) {
	const ids = 1_000_000
	for name, tt := range map[string]struct {
		apart uint64
		most  float64 // bits for each
	}{"side by side": {1, 1.2}, "every other": {2, 2.2}, "far apart": {1000, 40}} {
		var b Bitmap
		for i := range uint64(ids) {
			b.Add(i * tt.apart)
		}
		if each := float64(b.Memory()) * 8 / ids; each > tt.most {
			t.Errorf("%s: %.2f bits for each id, want %.2f at most", name, each, tt.most)
		} else {
			t.Logf("%s: %.2f bits for each id, %.2f encoded", name, each, float64(len(b.AppendTo(nil)))*8/ids)
		}
	}
}

// FuzzParseBitmap: what decodes is what is written, and nothing else decodes.
func FuzzParseBitmap(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 50, 5000} {
		var b Bitmap
		for range n {
			b.Add(random.Uint64N(4 * blockIDs))
		}
		f.Add(b.AppendTo(nil))
	}
	f.Add([]byte{0, 0})
	f.Add(bytes.Repeat([]byte{0xff}, 20))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := ParseBitmap(data)
		if err != nil {
			return
		}
		if got := b.AppendTo(nil); !bytes.Equal(got, data) {
			t.Errorf("%x decodes to %d ids, which are %x", data, b.Len(), got)
		}
	})
}

func BenchmarkBitmap(b *testing.B) {
	const ids = 1 << 20
	order := rand.New(rand.NewPCG(1, 2)).Perm(ids)
	b.Run("add and remove", func(b *testing.B) {
		var s Bitmap
		for i := 0; b.Loop(); i++ {
			if id := uint64(order[i%ids]); i/ids%2 == 0 {
				s.Add(id)
			} else {
				s.Remove(id)
			}
		}
	})
}

// TestBitmapClone tests that a clone takes no memory for ids, however many there are. A change of one set must not
// show in the other.
func TestBitmapClone(t *testing.T) {
	every := func(blocks uint64) (b Bitmap) { // second id
		for id := uint64(0); id < blocks*blockIDs; id += 2 {
			b.Add(id)
		}
		return b
	}
	b := every(64)
	if n := testing.AllocsPerRun(10, func() { b.Clone() }); n > 1 {
		t.Errorf("a clone of 64 blocks takes %v pieces of memory, want one, with the blocks", n)
	}
	const blocks = 5 // changes reach into the fourth
	b = every(blocks)
	other := BitmapOf(Set{Between(3, 700), Between(2*blockIDs+1, 3*blockIDs)})
	few := b.Part(Between(0, blockIDs-1))
	few.AddRange(Between(2*blockIDs, 2*blockIDs+9000))
	for name, change := range map[string]func(*Bitmap){
		"add":        func(b *Bitmap) { b.Add(5) },
		"remove":     func(b *Bitmap) { b.Remove(4) },
		"add range":  func(b *Bitmap) { b.AddRange(Between(1, 3*blockIDs+9)) },
		"remove one": func(b *Bitmap) { b.RemoveRange(Between(4, blockIDs-3)) },
		"add all":    func(b *Bitmap) { b.AddAll(&other) },
		"remove all": func(b *Bitmap) { b.RemoveAll(&other) },
		"below":      func(b *Bitmap) { b.RemoveBelow(2*blockIDs + 7) },
		"fill":       func(b *Bitmap) { b.AddRange(Between(0, blocks*blockIDs-1)) },
	} {
		for _, ids := range []Set{few.Ranges(), {{4, 4}, {9, 11}, {blockIDs + 4, blockIDs + 4}}} { // bits, and lists
			first := BitmapOf(ids)
			second := first.Clone()
			third := second.Clone()
			change(&second)
			if !slices.Equal(first.Ranges(), ids) || !slices.Equal(third.Ranges(), ids) {
				t.Errorf("%s: a set changes with its clone", name)
			}
			want := BitmapOf(ids)
			change(&want)
			if change(&first); !slices.Equal(first.Ranges(), want.Ranges()) || !slices.Equal(second.Ranges(), want.Ranges()) {
				t.Errorf("%s: a set that has been cloned changes otherwise", name)
			}
		}
	}
}

// TestBitmapAddAllCopies tests that a set which has got all ids of another one does not change with that.
func TestBitmapAddAllCopies(t *testing.T) {
	for _, ids := range []Set{{{4, 4}, {9, 11}}, {Between(4, blockIDs/2), Between(blockIDs-9, blockIDs-2)}} { // a list, and bits
		var b Bitmap
		other := BitmapOf(ids)
		b.AddAll(&other)
		other.Remove(4)
		other.Add(6)
		if got := b.Ranges(); !slices.Equal(got, ids) {
			t.Errorf("what had %v has %v when the other set has changed", ids, got)
		}
	}
}

// TestBitmapPart compares Part with what Within has.
func TestBitmapPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Bitmap
		for range rapid.IntRange(0, 6).Draw(t, "ranges") {
			b.AddRange(drawIDs(t))
		}
		r := drawIDs(t)
		part := b.Part(r)
		if got, want := part.Ranges(), Set(slices.Collect(b.Within(r))); !slices.Equal(got, want) {
			t.Fatalf("Part(%v) = %v, want %v", r, got, want)
		}
	})
}
