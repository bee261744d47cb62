package segment_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

const runDir, runName = "runs", "runs/0000000007.run"

// runTag is the tag 01 02 … 18.
func runTag() (tag segment.Tag) {
	for i := range tag {
		tag[i] = byte(i + 1)
	}
	return tag
}

var goldenRunID = segment.RunID{Number: 7, ID: 0x0102030405060708}

// eachIO runs a test for both ways to write a run.
func eachIO(t *testing.T, test func(t *testing.T, mode segment.IO)) {
	for mode, name := range []string{"cached", "direct"} {
		t.Run("io="+name, func(t *testing.T) { test(t, segment.IO(mode)) })
	}
}

// newRun makes run 7 on a disk.
func newRun(t testing.TB, disk *segmenttest.FS, mode segment.IO) *segment.RunWriter {
	t.Helper()
	must(t, disk.MkdirAll(runDir))
	w, err := segment.CreateRunAs(disk, runName, goldenRunID, mode)
	must(t, err)
	return w
}

// readRun returns the bodies of the frames of a run up to end, read both past the page cache and
// through it.
func readRun(fsys segment.FS, name string, id segment.RunID, end int64) (all []string, err error) {
	return readRunWith(fsys, name, id, end, &segment.ReadAhead{})
}

// readRunWith is readRun with the memory to read ahead.
func readRunWith(
	fsys segment.FS, name string, id segment.RunID, end int64, ahead *segment.ReadAhead,
) (all []string, err error) {
	all, err = readRunBy(fsys, name, id, end, ahead)
	cached, cachedErr := readRunBy(fsys, name, id, end, nil)
	if !slices.Equal(all, cached) || fmt.Sprint(err) != fmt.Sprint(cachedErr) {
		return nil, fmt.Errorf("past the cache %d frames, %w; through it %d, %w",
			len(all), err, len(cached), cachedErr)
	}
	return all, err
}

func readRunBy(
	fsys segment.FS, name string, id segment.RunID, end int64, ahead *segment.ReadAhead,
) (all []string, err error) {
	r, err := segment.OpenRun(fsys, name, id, ahead)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var c segment.Coder
	defer c.Close()
	for off := int64(segment.RunStart); off < end; {
		f, err := r.Frame(off, end)
		if err != nil {
			return all, err
		}
		body, err := r.Body(&c, nil, f)
		if err != nil {
			return all, err
		}
		if len(body) != f.Size {
			return all, fmt.Errorf("frame at %d of %d bytes has %d", off, f.Size, len(body))
		}
		all, off = append(all, string(body)), f.Next
	}
	return all, nil
}

// jsonItems is about n bytes of items like those that services put into queues.
func jsonItems(rng *rand.Rand, n int) []byte {
	var b []byte
	for len(b) < n {
		b = fmt.Appendf(b, `{"id":"%016x","type":"order.%s","user":%d,"at":"2026-03-%02dT%02d:%02d:%02dZ",`+
			`"items":[{"sku":"SKU-%06d","quantity":%d,"price":%d.%02d}],"retry":false,"region":"eu-%s-1"}`,
			rng.Uint64(), []string{"created", "paid", "shipped"}[rng.IntN(3)], rng.IntN(1e6),
			1+rng.IntN(28), rng.IntN(24), rng.IntN(60), rng.IntN(60), rng.IntN(1e6), 1+rng.IntN(9),
			rng.IntN(500), rng.IntN(100), []string{"west", "north", "central"}[rng.IntN(3)])
	}
	return b[:n]
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// TestRunReads writes frames of many sizes with every codec, in batches, and reads them while the
// run is open and after.
func TestRunReads(t *testing.T) {
	eachIO(t, func(t *testing.T, mode segment.IO) {
		for _, codec := range []segment.Codec{segment.CodecNone, segment.CodecS2, segment.CodecZstd} {
			disk := segmenttest.New()
			w := newRun(t, disk, mode)
			want := writeMany(t, w, codec)
			got, err := readRun(disk, runName, w.ID(), w.End())
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%v: read %d frames, %v, want %d, the same", codec, len(got), err, len(want))
			}
			must(t, w.Close())
			// What else the file has is nothing of the run.
			size, err := disk.Bytes(runName)
			must(t, err)
			if int64(len(size)) != w.End() || mode == segment.Direct && len(size)%segment.BlockSize != 0 {
				t.Errorf("%v: file of %d bytes, run of %d", codec, len(size), w.End())
			}
		}
	})
}

// writeMany writes frames of many sizes, several at a time, and returns their bodies.
func writeMany(t testing.TB, w *segment.RunWriter, codec segment.Codec) (want []string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(codec), 0))
	c := segment.NewCoder(codec)
	defer c.Close()
	raw := 0
	for i, size := range []int{0, 1, 7, 8, 63, 64, 1000, 3968, 4032, 4096, 70_000, 300_000} {
		for _, body := range [][]byte{jsonItems(rng, size), randomBytes(rng, size)} {
			w.Add(c, runTag(), body)
			want = append(want, string(body))
			raw += size
		}
		if i%3 == 0 {
			must(t, w.Write())
		}
	}
	must(t, w.Write())
	if smaller := w.End() < int64(raw*9/10); smaller != (codec != segment.CodecNone) {
		t.Errorf("%d bytes of bodies take %d", raw, w.End())
	}
	return want
}

// smallRun is a run of a few frames with every codec, all on a disk.
func smallRun(t testing.TB, mode segment.IO) (disk *segmenttest.FS, end int64) {
	disk = segmenttest.New()
	w := newRun(t, disk, mode)
	rng := rand.New(rand.NewPCG(1, 0))
	for _, codec := range []segment.Codec{segment.CodecNone, segment.CodecS2, segment.CodecZstd} {
		c := segment.NewCoder(codec)
		w.Add(c, runTag(), jsonItems(rng, 301))
		c.Close()
	}
	must(t, w.Write())
	must(t, w.Sync())
	must(t, w.Close())
	return disk, w.End()
}

// TestRunDamage flips every bit and cuts at every byte: each is found, and no wrong byte is served.
func TestRunDamage(t *testing.T) {
	eachIO(t, func(t *testing.T, mode segment.IO) {
		disk, end := smallRun(t, mode)
		whole, err := disk.Bytes(runName)
		must(t, err)
		ahead := &segment.ReadAhead{}
		want, err := readRunWith(disk, runName, goldenRunID, end, ahead)
		must(t, err)
		check := func(what string, data []byte, harmless bool) {
			must(t, disk.WriteFile(runName, data))
			got, err := readRunWith(disk, runName, goldenRunID, end, ahead)
			if harmless {
				must(t, err)
			} else if !errors.Is(err, segment.ErrCorrupt) {
				t.Fatalf("%s: error %v, want ErrCorrupt", what, err)
			}
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%s: frame %d reads as %q", what, i, got[i])
				}
			}
		}
		padding, last := runPadding(t, whole, mode)
		for at := range whole {
			if at > int(last)+16 && at%512 != 511 {
				continue // wide padding, all the same
			}
			for bit := range 8 {
				whole[at] ^= 1 << bit
				check(fmt.Sprintf("bit %d of byte %d flipped", bit, at), whole, padding[int64(at)])
				whole[at] ^= 1 << bit
			}
			check(fmt.Sprintf("cut at %d", at), whole[:at], int64(at) >= last)
		}
	})
}

// runPadding returns the offsets of bytes of a run that mean nothing, and the end of the last body.
func runPadding(t *testing.T, data []byte, mode segment.IO) (padding map[int64]bool, last int64) {
	padding = make(map[int64]bool)
	for off := int64(segment.RunStart); off < int64(len(data)); {
		f, ok := segment.ParseRunFrame(data[off:], off, goldenRunID.ID, mode == segment.Direct)
		if !ok {
			t.Fatalf("no frame at %d", off)
		}
		last = off + segment.RunFrameOverhead + int64(f.Stored)
		for off = last; off < f.Next; off++ {
			padding[off] = true
		}
	}
	return padding, last
}

// TestRunOther opens what is not the run that is asked for.
func TestRunOther(t *testing.T) {
	disk, end := smallRun(t, segment.Direct)
	for _, id := range []segment.RunID{{Number: 8, ID: goldenRunID.ID}, {Number: 7, ID: 1}} {
		if _, err := segment.OpenRun(disk, runName, id, nil); !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("OpenRun as %+v = %v, want ErrCorrupt", id, err)
		}
	}
	if _, err := segment.OpenRun(disk, "runs/none", goldenRunID, &segment.ReadAhead{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenRun of a missing file = %v, want ErrNotExist", err)
	}
	r, err := segment.OpenRun(disk, runName, goldenRunID, nil)
	must(t, err)
	defer r.Close()
	must(t, r.Covers(end))
	if err := r.Covers(end + 1); !errors.Is(err, segment.ErrCorrupt) {
		t.Errorf("Covers past the end = %v, want ErrCorrupt", err)
	}
	if _, err := r.Frame(segment.RunStart+8, end); !errors.Is(err, segment.ErrCorrupt) {
		t.Errorf("Frame where there is none = %v, want ErrCorrupt", err)
	}
}

// TestRunFaults has each call fail once. Nothing that was not written counts, and trying again goes on at the same
// place, but not after a failed sync.
func TestRunFaults(t *testing.T) {
	eachIO(t, func(t *testing.T, mode segment.IO) {
		disk := segmenttest.New()
		w := newRun(t, disk, mode)
		w.Add(nil, runTag(), []byte("one"))
		failWrite(disk, 10)
		if err := w.Write(); !errors.Is(err, syscall.ENOSPC) || w.End() != segment.RunStart {
			t.Errorf("Write = %v, end %d", err, w.End())
		}
		must(t, w.Write())
		w.Add(nil, runTag(), make([]byte, 9000))
		failWrite(disk, 5000) // a part of it stays in the file, and of a block
		if err := w.Write(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Write = %v, want ENOSPC", err)
		}
		w.Reclaim()
		w.Add(nil, runTag(), []byte("two"))
		must(t, w.Write())
		must(t, w.Sync())
		failNext(disk, segmenttest.OpReadAt, syscall.EIO)
		if _, err := readRun(disk, runName, w.ID(), w.End()); !errors.Is(err, syscall.EIO) {
			t.Errorf("a read that fails returns %v, want EIO", err)
		}
		end := w.End()
		w.Add(nil, runTag(), []byte("three"))
		must(t, w.Write())
		failNext(disk, segmenttest.OpDatasync, syscall.EIO)
		for range 2 {
			if err := w.Sync(); !errors.Is(err, segment.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
				t.Errorf("Sync = %v, want ErrPoisoned and EIO", err)
			}
		}
		w.Add(nil, runTag(), []byte("four"))
		if err := w.Write(); !errors.Is(err, segment.ErrPoisoned) || w.Synced() != end {
			t.Errorf("Write = %v, synced to %d, want ErrPoisoned and %d", err, w.Synced(), end)
		}
		got, err := readRun(disk, runName, w.ID(), w.End())
		if err != nil || strings.Join(got, " ") != "one two three" {
			t.Errorf("run reads as %q, %v", got, err)
		}
	})
}

// TestRunSyncOutOfFiles: a sync that finds no descriptor for the directory is tried again, and the run
// goes on.
func TestRunSyncOutOfFiles(t *testing.T) {
	eachIO(t, func(t *testing.T, mode segment.IO) {
		disk := segmenttest.New()
		w := newRun(t, disk, mode)
		w.Add(nil, runTag(), []byte("one"))
		must(t, w.Write())
		disk.SetFault(func(op segmenttest.Op) (f segmenttest.Fault) {
			if op.Kind == segmenttest.OpSyncDir {
				f = segmenttest.Fault{Err: syscall.EMFILE, KeepDirty: true}
			}
			return f
		})
		for range 2 {
			if err := w.Sync(); !segment.OutOfFiles(err) || errors.Is(err, segment.ErrPoisoned) || w.Synced() != 0 {
				t.Errorf("Sync = %v, synced to %d, want EMFILE and nothing", err, w.Synced())
			}
		}
		disk.SetFault(nil)
		w.Add(nil, runTag(), []byte("two"))
		must(t, w.Write())
		must(t, w.Sync())
		cut := disk.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
		got, err := readRun(cut, runName, w.ID(), w.Synced())
		if err != nil || strings.Join(got, " ") != "one two" {
			t.Errorf("after a power cut the run reads as %q, %v", got, err)
		}
	})
}

// failWrite has the next write end with ENOSPC after so many bytes.
func failWrite(disk *segmenttest.FS, bytes int) {
	n := disk.Calls(segmenttest.OpWriteAt)
	disk.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if op.Kind == segmenttest.OpWriteAt && op.KindN == n+1 {
			return segmenttest.Fault{Err: syscall.ENOSPC, Bytes: bytes}
		}
		return segmenttest.Fault{}
	})
}

// TestRunLend writes two runs in turns with one buffer, which neither keeps. The first is memory
// from elsewhere, not aligned to blocks; from then on it is what Reclaim returned.
func TestRunLend(t *testing.T) {
	eachIO(t, func(t *testing.T, mode segment.IO) {
		disk := segmenttest.New()
		names := []string{"a", "b"}
		var runs []*segment.RunWriter
		for i, name := range names {
			w, err := segment.CreateRun(disk, name, uint64(i+1), mode)
			must(t, err)
			runs = append(runs, w)
		}
		lent := segment.BlockBuffer(64 << 10)[8:8]
		for turn, body := range []string{"one", "two", "three"} {
			for i, w := range runs {
				w.Lend(lent)
				w.Add(nil, runTag(), []byte(names[i]+body))
				must(t, w.Write())
				w.Add(nil, runTag(), []byte("forgotten"))
				back := w.Reclaim()
				if first := turn+i == 0; !first && (cap(back) != cap(lent) || &back[:1][0] != &lent[:1][0]) {
					t.Fatalf("Reclaim returns %d bytes of memory that was not lent", cap(back))
				}
				if lent = back; w.Buffered() != 0 {
					t.Errorf("%d bytes are buffered after Reclaim", w.Buffered())
				}
			}
		}
		for i, want := range []string{"aone atwo athree", "bone btwo bthree"} {
			got, err := readRun(disk, names[i], runs[i].ID(), runs[i].End())
			if err != nil || strings.Join(got, " ") != want {
				t.Errorf("run %s reads as %q, %v, want %s", names[i], got, err, want)
			}
		}
	})
}

// TestRunSynced cuts the power at every call: what Sync said is durable is there, name and all.
// Negative control: without the SyncDir in Sync the file is gone in the images that keep nothing.
func TestRunSynced(t *testing.T) {
	eachIO(t, func(t *testing.T, mode segment.IO) {
		for n := 1; ; n++ {
			disk := segmenttest.New()
			must(t, disk.MkdirAll(runDir))
			disk.StopAt(n)
			synced, end := 0, int64(0) // frames, and the offset behind them
			if w, err := segment.CreateRunAs(disk, runName, goldenRunID, mode); err == nil {
				for i := range 5 {
					w.Add(nil, runTag(), fmt.Append(nil, i))
					if w.Write() != nil || w.Sync() != nil {
						break
					}
					synced, end = i+1, w.Synced()
				}
			}
			for seed := range uint64(4) {
				cut := disk.PowerCut(segmenttest.CutOptions{
					Mode: []segmenttest.Mode{segmenttest.Lose, segmenttest.Tear}[seed%2], Seed: seed,
				})
				got, err := readRun(cut, runName, goldenRunID, end)
				if end > 0 && (err != nil || strings.Join(got, "") != "01234"[:synced]) {
					t.Fatalf("stopped at call %d: %q, %v, want all up to %d", n, got, err, end)
				}
			}
			if !disk.Stopped() {
				return
			}
		}
	})
}

func FuzzParseRunFrame(f *testing.F) {
	f.Add(unhex(f, goldenRunFrame), int64(64), uint64(0x0102030405060708))
	f.Add(unhex(f, goldenWideFrame), int64(64), uint64(0x0102030405060708))
	f.Add(make([]byte, 64), int64(0), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, offset int64, id uint64) {
		if len(b) < segment.RunFrameOverhead {
			return
		}
		h, ok := segment.ParseRunFrame(b, offset, id, true)
		if _, narrow := segment.ParseRunFrame(b, offset, id, false); narrow != (ok && h.Wide == 0) {
			t.Errorf("header %x with wide padding of %d is taken in a run that has none",
				b[:segment.RunFrameOverhead], h.Wide)
		}
		if !ok {
			return
		}
		if h.Stored > segment.MaxPayloadSize || h.Raw > segment.MaxPayloadSize ||
			h.Codec > segment.CodecZstd || h.Wide >= segment.BlockSize || h.Wide%8 != 0 {
			t.Errorf("header %x is taken", b[:segment.RunFrameOverhead])
		}
		for bit := range 8 * segment.RunFrameOverhead {
			b[bit/8] ^= 1 << (bit % 8)
			if _, ok := segment.ParseRunFrame(b, offset, id, true); ok {
				t.Errorf("header %x is taken, and with bit %d flipped", b, bit)
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
	})
}

// zstdBomb says that it decompresses to 808 MB.
var zstdBomb = []byte("(\xb5/\xfd\x90000000")

// A body is given as much memory as the header of its frame says, whatever the body itself says:
// decode without its limit fails here.
func TestBodyOfManyBytes(t *testing.T) {
	disk := segmenttest.New()
	data := segment.AppendRunHeader(nil, goldenRunID, segment.Cached)
	data = segment.AppendRunFrame(data, zstdBomb, 5, segment.CodecZstd, 0, goldenRunID)
	must(t, disk.WriteFile(runName, data))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readRunWith(disk, runName, goldenRunID, segment.RunStart+1, nil)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, segment.ErrCorrupt) {
		t.Errorf("error %v, want ErrCorrupt", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("%d bytes were allocated for a body of 5", n)
	}
}

// FuzzRun has any bytes behind a frame header that is right for them. The body comes out as long as the header says, or
// not at all.
func FuzzRun(f *testing.F) {
	f.Add([]byte("hello"), uint32(5), uint32(0), uint16(0))
	f.Add([]byte("hello"), uint32(5), uint32(0), uint16(3960))
	f.Add([]byte("hello"), uint32(5), uint32(0), uint16(4096))
	f.Add([]byte{5, 16, 'h', 'e', 'l', 'l', 'o'}, uint32(5), uint32(1), uint16(8))
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x00, 0x29, 0, 0}, uint32(5), uint32(2), uint16(1))
	f.Add(zstdBomb, uint32(5), uint32(segment.CodecZstd), uint16(8))
	ahead := &segment.ReadAhead{}
	f.Fuzz(func(t *testing.T, stored []byte, raw, codec uint32, wide uint16) {
		for _, mode := range []segment.IO{segment.Cached, segment.Direct} {
			disk := segmenttest.New()
			data := segment.AppendRunHeader(nil, goldenRunID, mode)
			data = segment.AppendRunFrame(
				data, stored, int(raw%(1<<20)), segment.Codec(codec%4), int(wide), goldenRunID)
			must(t, disk.WriteFile(runName, data))
			got, err := readRunWith(disk, runName, goldenRunID, segment.RunStart+1, ahead)
			if err != nil && !errors.Is(err, segment.ErrCorrupt) {
				t.Errorf("error %v, want nil or ErrCorrupt", err)
			}
			if err == nil && len(got[0]) != int(raw%(1<<20)) {
				t.Errorf("body of %d bytes, want %d", len(got[0]), raw%(1<<20))
			}
			if err == nil && wide > 0 && (mode == segment.Cached || wide%8 != 0 || wide >= 4096) {
				t.Errorf("wide padding of %d is taken in a run of mode %d", wide, mode)
			}
		}
	})
}
