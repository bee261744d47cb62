package segment_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// placed is a batch, and where it lies.
type placed struct {
	path   string
	offset int64
	data   string
}

// salvaged reads a log with Salvage.
func salvaged(fsys segment.FS) (found []placed, gaps []segment.Gap, err error) {
	err = segment.Salvage(fsys, logDir, func(f segment.Frame) error {
		found = append(found, placed{f.Path, f.Offset, string(f.Payload)})
		return nil
	}, func(g segment.Gap) { gaps = append(gaps, g) })
	return found, gaps, err
}

// explains reports whether a gap says that something may be missing at p.
func explains(g segment.Gap, p placed) bool {
	return g.Batches && g.Path == p.path && (g.Size == 0 || g.Offset <= p.offset) &&
		(p.offset < g.Offset+g.Size || g.Size == 0)
}

// judgeSalvage says what is wrong with what Salvage makes of a damaged image of l. It finds batches of all, in order,
// at most lost of them missing, and those in gaps that it reports.
func judgeSalvage(all []placed, image *segmenttest.FS, lost int, damaged string) error {
	found, gaps, err := salvaged(image)
	if err != nil {
		return err
	}
	missing := 0
	for _, p := range all {
		if len(found) > 0 && found[0] == p {
			found = found[1:]
			continue
		}
		missing++
		if !slices.ContainsFunc(gaps, func(g segment.Gap) bool {
			// A file that was cut ends in its gap, wherever its frames lay.
			return explains(g, p) || g.Batches && g.Path == p.path && g.Path == damaged && lost < 0
		}) {
			return fmt.Errorf("the batch at %d of %s is missing, and the gaps are %+v", p.offset, p.path, gaps)
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("found %d of %s, which was not written so", found[0].offset, found[0].path)
	}
	if lost >= 0 && missing > lost {
		return fmt.Errorf("%d batches are missing: %+v", missing, gaps)
	}
	return nil
}

// TestSalvage flips a bit of every byte of a log, cuts every file at every length, and erases every frame. No more than
// the one batch that was hit is missing, or what was cut off, and a gap says so. If the id of the last segment was hit,
// all of the segment may be.
func TestSalvage(t *testing.T) {
	const idStart = 24 // offset of the id in a segment's header
	t.Parallel()
	for kind, l := range quietLogs(t) {
		all, gaps, err := salvaged(l.disk)
		if err != nil || len(gaps) > 0 || len(all) < 4 {
			t.Fatalf("%s log: %d batches, gaps %+v, %v", kind, len(all), gaps, err)
		}
		damages := 0
		try := func(what string, lost int, name string, damage func(*segmenttest.FS) error) {
			image := l.disk.Kill()
			if err := damage(image); err != nil {
				t.Fatal(err)
			}
			damages++
			if err := judgeSalvage(all, image, lost, name); err != nil {
				t.Errorf("%s log: %s: %v", kind, what, err)
			}
		}
		for name, data := range dump(t, l.disk) {
			for off := int64(0); off < int64(len(data)); off += salvageStep() {
				lost := 1
				if off >= idStart && off < idStart+8 && l.segments[neighbour(name, 1)].frames == nil {
					lost = -1 // nothing but its header records the id of the last segment
				}
				try(fmt.Sprintf("bit flipped at %d of %s", off, name), lost, name,
					func(image *segmenttest.FS) error { return image.FlipBit(name, off, uint(off*3)%8) })
				if off%8 > 1 {
					continue
				}
				try(fmt.Sprintf("%s cut to %d bytes", name, off), -1, name,
					func(image *segmenttest.FS) error { return image.TruncateFile(name, off) })
			}
		}
		for name, ref := range l.segments {
			for _, f := range ref.frames {
				try(fmt.Sprintf("frame erased at %d of %s", f.offset, name), 1, name,
					func(image *segmenttest.FS) error { erase(t, image, name, f.offset, f.end); return nil })
			}
			if l.segments[neighbour(name, -1)].frames == nil {
				continue // nothing shows that a log's first file is missing
			}
			try(name+" removed", -1, name, func(image *segmenttest.FS) error { return image.Remove(name) })
		}
		t.Logf("%s log: %d damages", kind, damages)
	}
}

// salvageStep is how far apart the bytes are that are damaged: a prime to 8, unless there is time.
func salvageStep() int64 {
	if os.Getenv("KESTREL_LONG") != "" {
		return 1
	}
	return 7
}

// neighbour is the path of the segment n numbers on, below 10.
func neighbour(name string, n int) string {
	digit := strings.TrimSuffix(name, ".seg")
	return segmentPath(digit[len(digit)-1] + byte(n))
}

// TestSalvageVersion: a log of another version is not a damaged one.
func TestSalvageVersion(t *testing.T) {
	l := store(t, opens, appends(10, 300), closes)
	data, err := l.disk.Bytes(segmentPath('1'))
	must(t, err)
	data[8] = 3
	refixHeader(data)
	must(t, l.disk.WriteFile(segmentPath('1'), data))
	if _, _, err := salvaged(l.disk); !errors.Is(err, segment.ErrUnknownVersion) {
		t.Errorf("Salvage = %v, want ErrUnknownVersion", err)
	}
}

// FuzzSalvage changes a log at random: every batch found is one that was written.
func FuzzSalvage(f *testing.F) {
	disk := segmenttest.New()
	s := newSession(disk, smallOptions)
	must(f, s.run([]step{opens, appends(10, 0, 300, 7), syncs, appends(600), prepares, appends(40), syncs, closes}))
	all, _, err := salvaged(disk)
	must(f, err)
	f.Add(uint16(70), []byte{1, 2, 3}, uint16(0))
	f.Add(uint16(0), []byte("KESTRLOG"), uint16(300))
	f.Fuzz(func(t *testing.T, at uint16, b []byte, cut uint16) {
		image := disk.Kill()
		name := segmentPath('1')
		data, err := image.Bytes(name)
		must(t, err)
		copy(data[min(int(at), len(data)):], b)
		must(t, image.WriteFile(name, data[:max(len(data)-int(cut), 0)]))
		found, _, err := salvaged(image)
		if err != nil && !errors.Is(err, segment.ErrUnknownVersion) {
			t.Fatal(err)
		}
		for _, p := range found {
			if !slices.Contains(all, p) {
				t.Errorf("found %q at %d of %s", p.data, p.offset, p.path)
			}
		}
	})
}

// TestSalvageRun flips a bit of every byte of a run, cuts it at every length, and erases frames. Whatever is not hit is
// found, and what is missing lies in a gap.
func TestSalvageRun(t *testing.T) {
	t.Parallel()
	eachIO(t, salvageRun)
}

func salvageRun(t *testing.T, mode segment.IO) {
	disk := segmenttest.New()
	w := newRun(t, disk, mode)
	c := segment.NewCoder(segment.CodecS2)
	defer c.Close()
	for i := range 6 {
		body := strings.Repeat(fmt.Sprint(i), 20+200*(i%2))
		w.Add(c, segment.Tag{byte(i)}, []byte(body))
		must(t, w.Write())
	}
	must(t, w.Sync())
	end := w.End()
	must(t, w.Close())
	read := func(fsys segment.FS) (found map[byte]int64, gaps []segment.RunGap) {
		found = make(map[byte]int64)
		gaps, err := segment.SalvageRun(fsys, runName, goldenRunID, end, c,
			func(f segment.RunFrame, body []byte) error {
				i := int(f.Tag[0])
				if want := strings.Repeat(fmt.Sprint(i), 20+200*(i%2)); string(body) != want {
					t.Errorf("frame %d is %q", i, body)
				}
				found[f.Tag[0]] = f.Offset
				return nil
			})
		must(t, err)
		return found, gaps
	}
	all, gaps := read(disk)
	if len(all) != 6 || len(gaps) != 0 {
		t.Fatalf("found %v, gaps %+v", all, gaps)
	}
	try := func(what string, lost int, image *segmenttest.FS) {
		t.Helper()
		found, gaps := read(image)
		if len(all)-len(found) > lost {
			t.Errorf("%s: found %v, gaps %+v", what, found, gaps)
		}
		for i, off := range all {
			if _, ok := found[i]; !ok && !slices.ContainsFunc(gaps, func(g segment.RunGap) bool {
				return g.Batches && g.Offset <= off && (g.Size == 0 || off < g.Offset+g.Size) &&
					(g.Tag == nil || g.Tag[0] == i)
			}) {
				t.Errorf("%s: frame %d is missing, and the gaps are %+v", what, i, gaps)
			}
		}
	}
	for off := range end {
		if off > all[0]+300 && off%segment.BlockSize > 300 && off%512 != 511 {
			continue // wide padding, all the same
		}
		image := disk.Kill()
		must(t, image.FlipBit(runName, off, uint(off)%8))
		try(fmt.Sprint("bit flipped at ", off), 1, image)
		image = disk.Kill()
		must(t, image.TruncateFile(runName, off))
		try(fmt.Sprintf("cut to %d bytes", off), 6, image)
	}
	image := disk.Kill()
	must(t, image.Remove(runName))
	if found, gaps := read(image); len(found) > 0 || len(gaps) != 1 || !gaps[0].Batches {
		t.Errorf("of a missing run found %v, gaps %+v", found, gaps)
	}
}

// countingFS counts how often the files opened through it are asked where data is.
type countingFS struct {
	segment.FS
	looks *int
}

func (f countingFS) OpenReadOnly(path string) (segment.File, error) {
	file, err := f.FS.OpenReadOnly(path)
	return countingFile{file, f.looks}, err
}

type countingFile struct {
	segment.File
	looks *int
}

func (f countingFile) NextData(int64) (int64, error) {
	*f.looks++
	return 0, nil // as of a file system without holes
}

// TestSalvageReservedRoom damages the last batch of a segment, behind which a file system without holes keeps zeros.
// Salvage looks for data a few times, not once for each place where a frame could begin.
func TestSalvageReservedRoom(t *testing.T) {
	disk := segmenttest.New()
	l, _, err := segment.Open(logDir, segment.Options{FS: disk, SegmentSize: 1 << 20}, func(segment.Frame) error { return nil })
	must(t, err)
	batch := make([]byte, segment.FrameHeaderSize, 64)
	_, _, err = l.Append(append(batch, "hello"...))
	must(t, err)
	_, err = l.Sync()
	must(t, err)
	image := disk.Kill()
	must(t, l.Close())
	var last placed
	_, _, err = segment.Scan(image, logDir, func(f segment.Frame) error {
		last = placed{path: f.Path, offset: f.Offset}
		return nil
	})
	must(t, err)
	must(t, image.FlipBit(last.path, last.offset+1, 1))
	looks := 0
	_, gaps, err := salvaged(countingFS{image, &looks})
	must(t, err)
	if len(gaps) != 1 || looks > 20 {
		t.Errorf("%d gaps, after asking %d times where data is; want 1, after at most 20 times", len(gaps), looks)
	}
}
