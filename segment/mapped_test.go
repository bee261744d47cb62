package segment_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
)

// mappedRun is a run on a real disk: frames of random bytes, so many bytes in all.
type mappedRun struct {
	path   string
	id     segment.RunID
	frames []int64 // offsets
	end    int64
}

func newMappedRun(t testing.TB, size int64) *mappedRun {
	t.Helper()
	run := &mappedRun{path: filepath.Join(t.TempDir(), "0000000007.run")}
	w, err := segment.CreateRun(segment.OS{}, run.path, 7, segment.Direct)
	must(t, err)
	var c segment.Coder
	rng := rand.New(rand.NewPCG(7, 7))
	for w.End() < size {
		for w.Buffered() < 1<<20 {
			run.frames = append(run.frames, w.Add(&c, segment.Tag{}, frameBody(len(run.frames), rng.IntN(300_000))))
		}
		must(t, w.Write())
	}
	must(t, w.Sync())
	run.id, run.end = w.ID(), w.End()
	must(t, w.Close())
	return run
}

// frameBody is what the i-th frame holds: its number, and bytes that depend on it.
func frameBody(i, size int) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("frame %d. ", i)), 1+size/10)
}

// read reads the frames from the i-th on, and checks that each holds what was written.
func (run *mappedRun) read(t testing.TB, r *segment.RunReader, from, to int) error {
	t.Helper()
	var c segment.Coder
	defer c.Close()
	for i, at := range run.frames[from:to] {
		f, err := r.Frame(at, run.end)
		if err != nil {
			return err
		}
		body, err := r.Body(&c, nil, f)
		if err != nil {
			return err
		}
		if want := fmt.Sprintf("frame %d. ", from+i); !bytes.HasPrefix(body, []byte(want)) || !bytes.HasSuffix(body, []byte(want)) {
			t.Fatalf("frame %d holds %.20q", from+i, body)
		}
	}
	return nil
}

// mapFS is the operating system's file system with hooks around maps.
type mapFS struct {
	segment.OS
	maps   atomic.Int64 // pieces mapped
	unmaps atomic.Int64
	fail   error                   // of every Map
	mapped func(mem []byte) []byte // replaces what Map returns
}

func (fs *mapFS) Uncached() segment.FS { return mapView{fs, fs.OS.Uncached()} }

type mapView struct {
	hooks *mapFS
	segment.FS
}

func (v mapView) OpenReadOnly(path string) (segment.File, error) {
	f, err := v.FS.OpenReadOnly(path)
	return &mapFile{f, v.hooks}, err
}

type mapFile struct {
	segment.File
	hooks *mapFS
}

// Map implements segment.Mapper.
func (f *mapFile) Map(off int64, n int) ([]byte, error) {
	if f.hooks.fail != nil {
		return nil, f.hooks.fail
	}
	f.hooks.maps.Add(1)
	mem, err := f.File.(segment.Mapper).Map(off, n)
	if err == nil && f.hooks.mapped != nil {
		return f.hooks.mapped(mem), nil
	}
	return mem, err
}

// Unmap implements segment.Mapper.
func (f *mapFile) Unmap(mem []byte, off int64) error {
	f.hooks.unmaps.Add(1)
	if f.hooks.mapped != nil {
		return nil
	}
	return f.File.(segment.Mapper).Unmap(mem, off)
}

const testPiece = segment.HugePage

func openMapped(t *testing.T, fsys segment.FS, run *mappedRun, ahead *segment.ReadAhead) *segment.RunReader {
	t.Helper()
	r, err := segment.OpenRun(fsys, run.path, run.id, ahead)
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// TestMapped reads a run in sequence. All of it but its beginning and its last part comes through maps, few at a time,
// and none is left in the end.
func TestMapped(t *testing.T) {
	run := newMappedRun(t, 24<<20)
	fs, ahead := &mapFS{}, segment.NewSmallReadAhead(testPiece)
	r := openMapped(t, fs, run, ahead)
	for i := range run.frames {
		must(t, run.read(t, r, i, i+1))
		if n := ahead.Pieces(); n > segment.MaxPieces {
			t.Fatalf("%d pieces are mapped, want at most %d", n, segment.MaxPieces)
		}
	}
	if fs.maps.Load() < 8 {
		t.Errorf("only %d pieces were mapped", fs.maps.Load())
	}
	must(t, r.Close())
	if fs.unmaps.Load() != fs.maps.Load() || ahead.Pieces() != 0 {
		t.Errorf("%d pieces were mapped and %d given up, %d are left", fs.maps.Load(), fs.unmaps.Load(), ahead.Pieces())
	}
}

// TestMappedAnywhere reads at random places, and goes on from there for a while.
func TestMappedAnywhere(t *testing.T) {
	run := newMappedRun(t, 24<<20)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	fs, ahead := &mapFS{}, segment.NewSmallReadAhead(testPiece)
	readers := []*segment.RunReader{openMapped(t, fs, run, ahead), openMapped(t, fs, run, ahead), openMapped(t, fs, run, ahead)}
	for range 30 {
		from := rng.IntN(len(run.frames))
		to := min(from+1+rng.IntN(60), len(run.frames))
		must(t, run.read(t, readers[rng.IntN(len(readers))], from, to))
	}
	if fs.maps.Load() == 0 {
		t.Error("nothing was mapped")
	}
}

// TestMappedTruncated cuts the file while pieces of it are mapped. What is missing is damage, as it is without maps,
// and not the end of the process.
func TestMappedTruncated(t *testing.T) {
	run := newMappedRun(t, 24<<20)
	r := openMapped(t, &mapFS{}, run, segment.NewSmallReadAhead(testPiece))
	half := len(run.frames) / 2
	must(t, run.read(t, r, 0, half))
	must(t, os.Truncate(run.path, run.frames[half]&^4095))
	err := run.read(t, r, half, len(run.frames))
	var damage *segment.CorruptionError
	if !errors.As(err, &damage) || damage.Path != run.path {
		t.Errorf("read of a run that was cut = %v, want a CorruptionError", err)
	}
}

// TestMappedRefused reads where files cannot be mapped, or the disk fails below a map.
func TestMappedRefused(t *testing.T) {
	run := newMappedRun(t, 8<<20)
	for _, fail := range []error{errors.ErrUnsupported, syscall.EIO, syscall.EFAULT, syscall.ENOMEM} {
		r := openMapped(t, &mapFS{fail: fail}, run, segment.NewSmallReadAhead(testPiece))
		if err := run.read(t, r, 0, len(run.frames)); err != nil {
			t.Errorf("with %v for each map: %v", fail, err)
		}
	}
}

// TestMappedStale has maps show other bytes than the disk has: they are read again, not taken for
// damage.
func TestMappedStale(t *testing.T) {
	run := newMappedRun(t, 8<<20)
	fs := &mapFS{mapped: func(mem []byte) []byte {
		stale := slices.Clone(mem)
		for i := range stale {
			stale[i] ^= 0xff
		}
		return stale
	}}
	r := openMapped(t, fs, run, segment.NewSmallReadAhead(testPiece))
	must(t, run.read(t, r, 0, len(run.frames)))
	if fs.maps.Load() == 0 {
		t.Error("nothing was mapped")
	}
}

// TestMappedDamage flips a bit of a mapped run: that is damage, whoever finds it.
func TestMappedDamage(t *testing.T) {
	run := newMappedRun(t, 8<<20)
	frame := run.frames[len(run.frames)/2]
	f, err := os.OpenFile(run.path, os.O_RDWR, 0)
	must(t, err)
	b := make([]byte, 1)
	at := frame + segment.RunFrameOverhead + 3
	if _, err := f.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte{b[0] ^ 1}, at)
	must(t, errors.Join(err, f.Close()))
	r := openMapped(t, &mapFS{}, run, segment.NewSmallReadAhead(testPiece))
	err = run.read(t, r, 0, len(run.frames))
	var damage *segment.CorruptionError
	if !errors.As(err, &damage) || damage.Offset != frame {
		t.Errorf("read of a damaged frame at %d = %v", frame, err)
	}
}
