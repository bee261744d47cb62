package segment_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// The bytes of a run, one group per field, as docs/FORMAT.md has them. The checksums come from
// another implementation of xxhash64.
const (
	// Run 7 with id 0x0102030405060708: magic, version, zero, number, id, zero, checksum.
	goldenRunHeader = "4b4553545252554e 01000000 00000000 0700000000000000 0807060504030201 " +
		"000000000000000000000000000000000000000000000000 987a015dbe55d8ee "

	// Stored and raw length, codec, zero, offset, tag, body checksum, header checksum; "hello",
	// padding.
	goldenRunFrame = "05000000 05000000 00000000 00000000 4000000000000000 " +
		"0102030405060708090a0b0c0d0e0f101112131415161718 " +
		"a36d9f887d82c726 3a2636060ca3ed10 68656c6c6f 000000 "
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

// newRun makes run 7 on a disk.
func newRun(t testing.TB, disk *segmenttest.FS) *segment.RunWriter {
	t.Helper()
	must(t, disk.MkdirAll(runDir))
	w, err := segment.CreateRunAs(disk, runName, goldenRunID)
	must(t, err)
	return w
}

// readRun returns the bodies of the frames of a run up to end.
func readRun(fsys segment.FS, name string, id segment.RunID, end int64) (all []string, err error) {
	r, err := segment.OpenRun(fsys, name, id)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var c segment.Coder
	defer c.Close()
	for off := int64(segment.RunStart); off < end; {
		f, err := r.Frame(off)
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

func TestRunGolden(t *testing.T) {
	disk := segmenttest.New()
	w := newRun(t, disk)
	if off := w.Add(nil, runTag(), []byte("hello")); off != segment.RunStart {
		t.Errorf("Add = %d, want %d", off, segment.RunStart)
	}
	must(t, w.Write())
	must(t, w.Close())
	want := unhex(t, goldenRunHeader+goldenRunFrame)
	if got, err := disk.Bytes(runName); err != nil || !bytes.Equal(got, want) {
		t.Errorf("run is\n%x, %v, want\n%x", got, err, want)
	}
	must(t, disk.WriteFile("other", want))
	got, err := readRun(disk, "other", goldenRunID, int64(len(want)))
	if err != nil || len(got) != 1 || got[0] != "hello" {
		t.Errorf("the vectors read as %q, %v", got, err)
	}
	text, err := os.ReadFile("../docs/FORMAT.md")
	must(t, err)
	document := strings.Join(strings.Fields(string(text)), "")
	for _, golden := range []string{goldenRunHeader, goldenRunFrame} {
		if !strings.Contains(document, strings.ReplaceAll(golden, " ", "")) {
			t.Errorf("docs/FORMAT.md lacks %s", golden)
		}
	}
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
	for _, codec := range []segment.Codec{segment.CodecNone, segment.CodecS2, segment.CodecZstd} {
		t.Run(codec.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(codec), 0))
			disk := segmenttest.New()
			w := newRun(t, disk)
			c := segment.NewCoder(codec)
			defer c.Close()
			var want []string
			raw := 0
			for i, size := range []int{0, 1, 7, 8, 63, 64, 1000, 4096, 70_000, 300_000} {
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
			got, err := readRun(disk, runName, w.ID(), w.End())
			if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("read %d frames, %v, want %d, the same", len(got), err, len(want))
			}
			must(t, w.Close())
		})
	}
}

// smallRun is a run of a few frames with every codec, all on a disk.
func smallRun(t testing.TB) (disk *segmenttest.FS, end int64) {
	disk = segmenttest.New()
	w := newRun(t, disk)
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
	disk, end := smallRun(t)
	whole, err := disk.Bytes(runName)
	must(t, err)
	want, err := readRun(disk, runName, goldenRunID, end)
	must(t, err)
	check := func(what string, data []byte, harmless bool) {
		must(t, disk.WriteFile(runName, data))
		got, err := readRun(disk, runName, goldenRunID, end)
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
	padding := runPadding(t, disk, end)
	for at := range whole {
		for bit := range 8 {
			whole[at] ^= 1 << bit
			check(fmt.Sprintf("bit %d of byte %d flipped", bit, at), whole, padding[int64(at)])
			whole[at] ^= 1 << bit
		}
		check(fmt.Sprintf("cut at %d", at), whole[:at], padding[int64(at)] && int64(at) > end-8)
	}
}

// runPadding returns the offsets of bytes that mean nothing.
func runPadding(t *testing.T, disk *segmenttest.FS, end int64) map[int64]bool {
	data, err := disk.Bytes(runName)
	must(t, err)
	padding := make(map[int64]bool)
	for off := int64(segment.RunStart); off < end; {
		stored, _, _, ok := segment.ParseRunFrame(data[off:], off, goldenRunID.ID)
		if !ok {
			t.Fatalf("no frame at %d", off)
		}
		behind := off + segment.RunFrameOverhead + int64(stored)
		for off = behind; off%8 != 0; off++ {
			padding[off] = true
		}
	}
	return padding
}

// TestRunOther opens what is not the run that is asked for.
func TestRunOther(t *testing.T) {
	disk, end := smallRun(t)
	for _, id := range []segment.RunID{{Number: 8, ID: goldenRunID.ID}, {Number: 7, ID: 1}} {
		if _, err := segment.OpenRun(disk, runName, id); !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("OpenRun as %+v = %v, want ErrCorrupt", id, err)
		}
	}
	if _, err := segment.OpenRun(disk, "runs/none", goldenRunID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenRun of a missing file = %v, want ErrNotExist", err)
	}
	r, err := segment.OpenRun(disk, runName, goldenRunID)
	must(t, err)
	defer r.Close()
	must(t, r.Covers(end))
	if err := r.Covers(end + 1); !errors.Is(err, segment.ErrCorrupt) {
		t.Errorf("Covers past the end = %v, want ErrCorrupt", err)
	}
	if _, err := r.Frame(segment.RunStart + 8); !errors.Is(err, segment.ErrCorrupt) {
		t.Errorf("Frame where there is none = %v, want ErrCorrupt", err)
	}
}

// TestRunFaults has each call fail once: nothing that was not written counts, and trying again
// goes on at the same place, but not after a failed sync.
func TestRunFaults(t *testing.T) {
	disk := segmenttest.New()
	w := newRun(t, disk)
	w.Add(nil, runTag(), []byte("one"))
	n := disk.Calls(segmenttest.OpWriteAt)
	disk.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if op.Kind == segmenttest.OpWriteAt && op.KindN == n+1 {
			return segmenttest.Fault{Err: syscall.ENOSPC, Bytes: 10}
		}
		return segmenttest.Fault{}
	})
	if err := w.Write(); !errors.Is(err, syscall.ENOSPC) || w.End() != segment.RunStart {
		t.Errorf("Write = %v, end %d", err, w.End())
	}
	must(t, w.Write())
	w.Add(nil, runTag(), []byte("never"))
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
}

// TestRunLend writes two runs in turns with one buffer, which neither keeps.
func TestRunLend(t *testing.T) {
	disk := segmenttest.New()
	names := []string{"a", "b"}
	var runs []*segment.RunWriter
	for i, name := range names {
		w, err := segment.CreateRun(disk, name, uint64(i+1))
		must(t, err)
		runs = append(runs, w)
	}
	lent := make([]byte, 0, 1024)
	for _, body := range []string{"one", "two", "three"} {
		for i, w := range runs {
			w.Lend(lent)
			w.Add(nil, runTag(), []byte(names[i]+body))
			must(t, w.Write())
			w.Add(nil, runTag(), []byte("forgotten"))
			if back := w.Reclaim(); cap(back) != cap(lent) || &back[:1][0] != &lent[:1][0] {
				t.Fatalf("Reclaim returns %d bytes of memory that was not lent", cap(back))
			}
			if n := w.Buffered(); n != 0 {
				t.Errorf("%d bytes are buffered after Reclaim", n)
			}
		}
	}
	for i, want := range []string{"aone atwo athree", "bone btwo bthree"} {
		got, err := readRun(disk, names[i], runs[i].ID(), runs[i].End())
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("run %s reads as %q, %v, want %s", names[i], got, err, want)
		}
	}
}

// TestRunSynced cuts the power at every call: what Sync said is durable is there, name and all.
// Negative control: without the SyncDir in Sync the file is gone in the images that keep nothing.
func TestRunSynced(t *testing.T) {
	for n := 1; ; n++ {
		disk := segmenttest.New()
		must(t, disk.MkdirAll(runDir))
		disk.StopAt(n)
		var end int64
		if w, err := segment.CreateRunAs(disk, runName, goldenRunID); err == nil {
			for i := range 5 {
				w.Add(nil, runTag(), fmt.Append(nil, i))
				if w.Write() != nil || w.Sync() != nil {
					break
				}
				end = w.Synced()
			}
		}
		for seed := range uint64(4) {
			cut := disk.PowerCut(segmenttest.CutOptions{
				Mode: []segmenttest.Mode{segmenttest.Lose, segmenttest.Tear}[seed%2], Seed: seed,
			})
			got, err := readRun(cut, runName, goldenRunID, end)
			if end > 0 && (err != nil || int64(len(got)) != (end-segment.RunStart)/72) {
				t.Fatalf("stopped at call %d: %q, %v, want all up to %d", n, got, err, end)
			}
		}
		if !disk.Stopped() {
			return
		}
	}
}

func FuzzParseRunFrame(f *testing.F) {
	f.Add(unhex(f, goldenRunFrame), int64(64), uint64(0x0102030405060708))
	f.Add(make([]byte, 64), int64(0), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, offset int64, id uint64) {
		if len(b) < segment.RunFrameOverhead {
			return
		}
		stored, raw, codec, ok := segment.ParseRunFrame(b, offset, id)
		if !ok {
			return
		}
		if stored > segment.MaxPayloadSize || raw > segment.MaxPayloadSize || codec > segment.CodecZstd {
			t.Errorf("header %x is taken", b[:segment.RunFrameOverhead])
		}
		for bit := range 8 * segment.RunFrameOverhead {
			b[bit/8] ^= 1 << (bit % 8)
			if _, _, _, ok := segment.ParseRunFrame(b, offset, id); ok {
				t.Errorf("header %x is taken, and with bit %d flipped", b, bit)
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
	})
}

// FuzzRun has any bytes behind a frame header that is right for them: the body comes out as long
// as the header says, or not at all.
func FuzzRun(f *testing.F) {
	f.Add([]byte("hello"), uint32(5), uint32(0))
	f.Add([]byte{5, 16, 'h', 'e', 'l', 'l', 'o'}, uint32(5), uint32(1))
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x00, 0x29, 0, 0}, uint32(5), uint32(2))
	f.Fuzz(func(t *testing.T, stored []byte, raw, codec uint32) {
		disk := segmenttest.New()
		w := newRun(t, disk)
		must(t, w.Close())
		frame := segment.AppendRunFrame(nil, stored, int(raw%(1<<20)), segment.Codec(codec%4), goldenRunID)
		data, err := disk.Bytes(runName)
		must(t, err)
		must(t, disk.WriteFile(runName, append(data, frame...)))
		got, err := readRun(disk, runName, goldenRunID, segment.RunStart+1)
		if err != nil && !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("error %v, want nil or ErrCorrupt", err)
		}
		if err == nil && len(got[0]) != int(raw%(1<<20)) {
			t.Errorf("body of %d bytes, want %d", len(got[0]), raw%(1<<20))
		}
	})
}
