package keyindex

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// goldenSeed has the bytes 00 01 … 0f.
func goldenSeed() *Seed {
	var s Seed
	for i := range s {
		s[i] = byte(i)
	}
	return &s
}

// A frame as docs/FORMAT.md has it. The hashes are not from this code: SipHash-2-4 was written anew for them, and
// tried with the vectors of its authors.
const (
	goldenTag  = "0500000000000000 2c01000000000000 02000020 00000000"
	goldenBody = "000102030405060708090a0b0c0d0e0f 00 3b68442dc88d4ef2 a702 09bc09675bc61401"
)

func unspaced(s string) string { return strings.ReplaceAll(s, " ", "") }

// TestFrameGolden writes a frame as docs/FORMAT.md has it, and reads it.
func TestFrameGolden(t *testing.T) {
	seed := goldenSeed()
	entries := []Entry{{seed.Hash([]byte("k-1")), 5}, {seed.Hash([]byte("k-2")), 300}}
	tag, body := appendFrame(nil, seed, entries)
	if got := hex.EncodeToString(tag[:]); got != unspaced(goldenTag) {
		t.Errorf("the tag is %s", got)
	}
	if got := hex.EncodeToString(body); got != unspaced(goldenBody) {
		t.Errorf("the body is %s", got)
	}
	if s, back, err := ParseFrame(tag, body, nil); err != nil || s != *seed || !slices.Equal(back, entries) {
		t.Errorf("%x, %v comes back, %v", s, back, err)
	}
	if !IsFrame(tag) || FrameCount(tag) != 2 {
		t.Errorf("IsFrame = %t, FrameCount = %d", IsFrame(tag), FrameCount(tag))
	}
	text, err := os.ReadFile("../../../docs/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{goldenTag, goldenBody} {
		if !strings.Contains(strings.Join(strings.Fields(string(text)), ""), unspaced(part)) {
			t.Errorf("docs/FORMAT.md lacks %s", part)
		}
	}
}

// TestGatherer writes what was gathered in two frames of a run, and nothing without a seed.
func TestGatherer(t *testing.T) {
	w, err := segment.CreateRun(segmenttest.New(), "run", 1, segment.Cached)
	if err != nil {
		t.Fatal(err)
	}
	coder := segment.NewCoder(segment.CodecNone)
	defer coder.Close()
	var g Gatherer
	g.Note([]byte("k"), 1)
	if g.AddTo(w, coder); w.Buffered() > 0 {
		t.Errorf("without a seed %d bytes are written", w.Buffered())
	}
	g.Seed = goldenSeed()
	g.Note([]byte("k-2"), 300)
	g.Note([]byte("k-1"), 5)
	if g.AddTo(w, coder); w.Buffered() == 0 {
		t.Fatal("nothing is written")
	}
	if got := hex.EncodeToString(g.body); got != unspaced(goldenBody) {
		t.Errorf("the body is %s", got)
	}
	n := w.Buffered()
	if g.AddTo(w, coder); w.Buffered() != n {
		t.Error("entries are written twice")
	}
}

// FuzzFrame: what ParseFrame takes is the one form of what it returns, and it panics at nothing.
func FuzzFrame(f *testing.F) {
	tag, err := hex.DecodeString(unspaced(goldenTag))
	if err != nil {
		f.Fatal(err)
	}
	body, err := hex.DecodeString(unspaced(goldenBody))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(tag, body)
	f.Add(tag, body[:len(body)-1])
	f.Fuzz(func(t *testing.T, tagBytes, body []byte) {
		if len(tagBytes) < segment.TagSize {
			return
		}
		tag := segment.Tag(tagBytes)
		seed, entries, err := ParseFrame(tag, body, nil)
		if err != nil {
			return
		}
		tagAgain, again := appendFrame(nil, &seed, entries)
		if tagAgain != tag || !bytes.Equal(again, body) {
			t.Errorf("%v came of %x, %x, and is %x, %x", entries, tag, body, tagAgain, again)
		}
	})
}

// TestLoader compares an index that was loaded with one that was set, for sizes around those at which leaves are made.
// Some hashes occur twice, and fewer or more entries come than were announced.
func TestLoader(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{0, 1, 2, 111, 112, 113, 224, 225, 1000, 11_000} {
		for _, announced := range []int{n, n / 9, n*9 + 1} {
			loaded, set := Index{Memory: new(atomic.Int64)}, Index{Memory: new(atomic.Int64)}
			l := loaded.Load(announced)
			var hashes []uint64
			for id := range uint64(n) {
				hash := r.Uint64()
				if id%10 == 9 {
					hash = hashes[r.IntN(len(hashes))]
				}
				hashes = append(hashes, hash)
			}
			for _, i := range r.Perm(n) {
				l.Add(Entry{hashes[i], uint64(i)})
			}
			l.End()
			for id, hash := range hashes {
				set.Set(hash, uint64(id))
			}
			if loaded.Len() != set.Len() {
				t.Fatalf("%d of %d: %d entries, want %d", n, announced, loaded.Len(), set.Len())
			}
			room := 0
			for i, leaf := range loaded.leaves {
				room += cap(leaf)
				for _, e := range leaf {
					if loaded.leafOf(e.Hash) != i {
						t.Fatalf("%d of %d: an entry is in a wrong leaf", n, announced)
					}
				}
			}
			if room != loaded.entries || announced == n && n > 10_000 && room > n*6/5 {
				t.Errorf("%d of %d: room for %d entries, counted %d", n, announced, room, loaded.entries)
			}
			for _, hash := range hashes {
				want, there := set.Find(hash) // not if it occurs twice and was deleted
				if got, ok := loaded.Find(hash); ok != there || got != want {
					t.Fatalf("%d of %d: found %d, %t, want %d, %t", n, announced, got, ok, want, there)
				}
				if r.IntN(2) == 0 { // it can be changed as any other
					set.Delete(hash, want)
					loaded.Delete(hash, want)
				}
			}
			if loaded.Len() != set.Len() {
				t.Errorf("%d of %d: after deletions %d entries, want %d", n, announced, loaded.Len(), set.Len())
			}
		}
	}
}

// BenchmarkLoad loads a million entries.
func BenchmarkLoad(b *testing.B) {
	const n = 1_000_000
	r := rand.New(rand.NewPCG(1, 0))
	for b.Loop() {
		x := Index{Memory: new(atomic.Int64)}
		l := x.Load(n)
		for id := range uint64(n) {
			l.Add(Entry{r.Uint64(), id})
		}
		l.End()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
}
