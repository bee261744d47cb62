package segment

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestDirectFile appends pieces of all sizes and reads them back by another descriptor after each,
// as a run's reader does; now and then a write out of order turns to the page cache.
func TestDirectFile(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		name := filepath.Join(t.TempDir(), "file")
		f, err := OS{}.CreateSequential(name)
		if err != nil {
			t.Fatal(err)
		}
		if seed == 0 {
			t.Logf("direct: %t", f.(*directFile).direct)
		}
		reader, err := OS{}.OpenSequential(name)
		if err != nil {
			t.Fatal(err)
		}
		var want []byte
		for range 60 {
			sizes := []int{1, 8, 100, directAlign - 1, directAlign, directAlign + 1, 3*directAlign - 8, 300_000}
			piece := make([]byte, 1+r.IntN(sizes[r.IntN(len(sizes))]))
			for i := range piece {
				piece[i] = byte(r.Uint32())
			}
			off := int64(len(want))
			if seed%4 == 3 && off > 0 && r.IntN(20) == 0 {
				off = r.Int64N(off)
			}
			if n, err := f.WriteAt(piece, off); n != len(piece) || err != nil {
				t.Fatalf("seed %d: WriteAt of %d bytes at %d = %d, %v", seed, len(piece), off, n, err)
			}
			want = append(want[:off], append(piece, want[min(int(off)+len(piece), len(want)):]...)...)
			if err := readsAs(reader, want[off:], off); err != nil {
				t.Fatalf("seed %d: after a write of %d bytes at %d: %v", seed, len(piece), off, err)
			}
			at := r.IntN(len(want))
			part := want[at : at+r.IntN(len(want)-at)+1]
			if err := readsAs(reader, part, int64(at)); err != nil {
				t.Fatalf("seed %d: after a write of %d bytes at %d: %v", seed, len(piece), off, err)
			}
		}
		if err := f.Datasync(); err != nil {
			t.Errorf("Datasync = %v", err)
		}
		f.Close()
		reader.Close()
		data, err := os.ReadFile(name)
		if err != nil || !bytes.HasPrefix(data, want) || len(bytes.TrimRight(data[len(want):], "\x00")) > 0 {
			t.Errorf("seed %d: what follows what was written is not zero: %v", seed, err)
		}
	}
}

// readsAs reports how what f holds from off on differs from want.
func readsAs(f File, want []byte, off int64) error {
	got := make([]byte, len(want))
	if n, err := f.ReadAt(got, off); n < len(want) || !bytes.Equal(got, want) {
		return fmt.Errorf("ReadAt of %d bytes at %d = %d, %v, and other bytes", len(want), off, n, err)
	}
	return nil
}
