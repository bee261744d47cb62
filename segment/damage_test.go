package segment_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// storedLog is a log at rest: a disk, what the log on it holds, and its segments read by the
// reference reader.
type storedLog struct {
	*session
	disk     *segmenttest.FS
	segments map[string]refSegment // by path
	last     string                // path of the last segment that has frames
}

// store runs steps and returns what is left on the disk after them and a power cut.
func store(t *testing.T, steps ...step) *storedLog {
	t.Helper()
	disk := segmenttest.New()
	s := newSession(disk, smallOptions)
	if err := s.run(steps); err != nil {
		t.Fatal(err)
	}
	disk = disk.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Keep})
	l := &storedLog{session: s.on(disk), disk: disk, segments: map[string]refSegment{}}
	for _, name := range disk.Paths() {
		data, err := disk.Bytes(name)
		if err != nil {
			t.Fatal(err)
		}
		if ref, ok := refRead(data); ok && strings.HasSuffix(name, ".seg") {
			l.segments[name] = ref
			if len(ref.frames) > 0 {
				l.last = name
			}
		}
	}
	return l
}

func dump(t *testing.T, disk *segmenttest.FS) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, name := range disk.Paths() {
		data, err := disk.Bytes(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(data)
	}
	return files
}

// verdict is what must become of a log with one file damaged.
type verdict struct {
	damage bool  // refused
	tear   bool  // else: reported as torn, with every batch there
	offset int64 // of the damage or the tear; -1 for any
	keep   int   // with tear, how many batches are left; -1 for all
}

// judge opens a damaged image of l and returns a violation unless what happens is what must.
func (l *storedLog) judge(t *testing.T, image *segmenttest.FS, name string, want verdict) error {
	t.Helper()
	return l.judgeOn(t, image, image, name, want)
}

// judgeOn is judge with another file system in front of the image.
func (l *storedLog) judgeOn(
	t *testing.T, image *segmenttest.FS, front segment.FS, name string, want verdict,
) error {
	t.Helper()
	before := dump(t, image)
	var found []batch
	s := l.on(front)
	log, report, err := segment.Open(logDir, s.opts, collect(&found))
	if err == nil {
		defer log.Close()
	}
	if want.damage {
		var damage *segment.CorruptionError
		switch {
		case !errors.As(err, &damage) || !errors.Is(err, segment.ErrCorrupt):
			return violationf("Open = %v and %d batches, want a CorruptionError", err, len(found))
		case damage.Path != name || want.offset >= 0 && damage.Offset != want.offset:
			return violationf("damage is said to be at %d of %s (%s), want %d of %s",
				damage.Offset, damage.Path, damage.Reason, want.offset, name)
		case !maps.Equal(before, dump(t, image)):
			return violationf("Open changed a damaged log")
		}
		return leaks(image)
	}
	if err != nil {
		return violationf("Open = %v, want a log", err)
	}
	kept := *l.h
	if want.tear && want.keep >= 0 {
		kept = history{batches: l.h.batches[:want.keep]}
	}
	if err := kept.check(found, promiseWritten); err != nil {
		return err
	}
	switch tear := report.Tear; {
	case (tear != nil) != want.tear:
		return violationf("Tear = %+v, want one: %v", tear, want.tear)
	case want.tear && (tear.Path != name || want.offset >= 0 && tear.Offset != want.offset):
		return violationf("Tear = %+v, want it at %d of %s", *tear, want.offset, name)
	}
	return nil
}

// verdictOn says what must follow from a flip of one bit of a log in which every batch is vouched
// for.
func (l *storedLog) verdictOn(name string, off int64, bit uint) verdict {
	ref, ok := l.segments[name]
	if !ok {
		return verdict{} // not a segment: it means nothing
	}
	if off < 64 {
		return verdict{damage: true}
	}
	f, inFrame := ref.frameAt(off)
	atEnd := off >= ref.end() && off < ref.end()+8 && !ref.sealed
	switch {
	case inFrame && f.kind == 4 && off == f.offset+4 && bit == 2 && !ref.sealed:
		return verdict{} // kind 4 becomes 0, which with a length of 0 is an end mark
	case inFrame && name == l.last && f.next() == ref.end() && !ref.sealed:
		return verdict{tear: true, offset: f.offset, keep: -1} // no batch, and nothing behind it
	case inFrame:
		return verdict{damage: true, offset: f.offset}
	case atEnd && name == l.last: // the end mark
		return verdict{tear: true, offset: ref.end(), keep: -1}
	case atEnd && l.segments[l.last].sealed: // that of a prepared segment
		return verdict{tear: true, offset: ref.end(), keep: -1}
	}
	return verdict{} // padding, or behind the end
}

// quietLogs are logs in which every batch is known to have been synced.
func quietLogs(t *testing.T) map[string]*storedLog {
	use := []step{
		opens, appends(10, 0, 300, 7), syncs, appends(600), prepares, appends(500, 3), syncs,
		drops(2), appends(100), prepares, appends(61, 800), syncs, prepares, appends(200, 9),
		prepares, syncs, drops(3),
	}
	logs := map[string]*storedLog{
		"closed": store(t, append(slices.Clone(use), closes)...),
		"marked": store(t, append(slices.Clone(use), marks)...),
	}
	for name, l := range logs {
		if len(l.segments) < 4 || !slices.ContainsFunc(l.disk.Paths(), isSpare) {
			t.Fatalf("%s log lacks variety: %q", name, l.disk.Paths())
		}
	}
	return logs
}

func isSpare(name string) bool { return path.Ext(name) == ".spare" }

// TestDamageFlippedBits flips every bit of headers, trailers, links and marks and one bit of every
// other byte.
func TestDamageFlippedBits(t *testing.T) {
	t.Parallel()
	for kind, l := range quietLogs(t) {
		t.Run(kind, func(t *testing.T) {
			for name, data := range dump(t, l.disk) {
				for off := int64(0); off < int64(len(data)); off += int64(stride()) {
					bits := []uint{0, 1, 2, 3, 4, 5, 6, 7}
					f, inFrame := l.segments[name].frameAt(off)
					if off >= 64 && (!inFrame || off >= f.offset+40 && f.kind == 1) {
						bits = []uint{uint(off) % 8}
					}
					for _, bit := range bits {
						image := l.disk.Kill()
						if err := image.FlipBit(name, off, bit); err != nil {
							t.Fatal(err)
						}
						if err := l.judge(t, image, name, l.verdictOn(name, off, bit)); err != nil {
							t.Errorf("bit %d at offset %d of %s flipped: %v", bit, off, name, err)
						}
					}
				}
			}
		})
	}
}

// TestDamageTruncated cuts every file at every length.
func TestDamageTruncated(t *testing.T) {
	t.Parallel()
	for kind, l := range quietLogs(t) {
		t.Run(kind, func(t *testing.T) {
			for name, data := range dump(t, l.disk) {
				for size := int64(0); size < int64(len(data)); size += int64(stride()) {
					image := l.disk.Kill()
					if err := image.TruncateFile(name, size); err != nil {
						t.Fatal(err)
					}
					ref, ok := l.segments[name]
					want := verdict{damage: true, offset: -1}
					if !ok || ref.sealed && size >= ref.end() {
						want = verdict{}
					}
					if err := l.judge(t, image, name, want); err != nil {
						t.Errorf("%s cut to %d bytes: %v", name, size, err)
					}
				}
			}
		})
	}
}

// TestDamageErased overwrites every frame with zeros: what a lost write leaves.
func TestDamageErased(t *testing.T) {
	for kind, l := range quietLogs(t) {
		t.Run(kind, func(t *testing.T) {
			for name, ref := range l.segments {
				for i, f := range ref.frames {
					image := l.disk.Kill()
					erase(t, image, name, f.offset, f.end)
					want := verdict{damage: true, offset: f.offset}
					if name == l.last && i == len(ref.frames)-1 && !ref.sealed {
						want = verdict{} // no batch, and now the end is clean
					}
					if err := l.judge(t, image, name, want); err != nil {
						t.Errorf("frame at %d of %s erased: %v", f.offset, name, err)
					}
				}
			}
		})
	}
}

func erase(t *testing.T, disk *segmenttest.FS, name string, from, to int64) {
	t.Helper()
	data, err := disk.Bytes(name)
	if err != nil {
		t.Fatal(err)
	}
	clear(data[from:to])
	if err := disk.WriteFile(name, data); err != nil {
		t.Fatal(err)
	}
}

// TestTornTail flips bits in batches of which no frame says that they were synced.
func TestTornTail(t *testing.T) {
	l := store(t, opens, appends(10, 300), syncs, appends(40, 50, 60, 0), syncs)
	const vouched = 2 // the others were synced too, but nothing on disk says so
	ref := l.segments[l.last]
	if err := l.on(l.disk.Kill()).open(promiseWritten); err != nil {
		t.Fatal(err)
	}
	for i, f := range ref.frames[1:] { // the first is the link
		for off := f.offset; off < f.end; off++ {
			image := l.disk.Kill()
			if err := image.FlipBit(l.last, off, uint(off)%8); err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprintf("flip at %d in batch %d", off, i)
			want := verdict{tear: true, offset: f.offset, keep: i}
			if i < vouched {
				want = verdict{damage: true, offset: f.offset}
			}
			data, _ := image.Bytes(l.last)
			if err := l.judge(t, image, l.last, want); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if want.damage {
				continue
			}
			saved, err := image.Bytes(logDir + "/0000000001.torn")
			torn := data[f.offset:ref.end()]
			if !bytes.Equal(bytes.TrimRight(saved, "\x00"), bytes.TrimRight(torn, "\x00")) {
				t.Errorf("%s: saved %d bytes, %v, want the %d that were cut", what, len(saved), err, len(torn))
			}
		}
	}
}
