package segment_test

import (
	"errors"
	"maps"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

func TestOpenReports(t *testing.T) {
	s, _ := start(t, smallOptions)
	if r := s.found; r.Segments != 0 || r.Frames != 0 || r.Bytes != 0 || r.Tear != nil {
		t.Errorf("Recovery of a new log = %+v, want nothing", r)
	}
	must(t, s.run([]step{appends(600, 600, 10), closes, opens}))
	// Segment 1: header, link, one batch, trailer; segment 2: the same and one batch more.
	const want = 2*(64+72+640+56) + 56
	if r := s.found; r.Segments != 2 || r.Frames != 3 || r.Bytes != want || r.Tear != nil ||
		r.TornBytes != 0 || len(r.Saved) != 0 {
		t.Errorf("Recovery = %+v, want 2 segments, 3 frames, %d bytes", r, want)
	}
}

// TestOpenLeavesOthersAlone has files of other names in the directory.
func TestOpenLeavesOthersAlone(t *testing.T) {
	s, disk := start(t, smallOptions, appends(600, 600), closes)
	strays := []string{
		"1.seg", "00000000001.seg", "0000000000.seg", "000000000x.seg", "+000000001.seg",
		"0000000001", "0000000001.", "0000000001.seg.bak", "0000000001.SEG", "0000000001.torn",
		"0000000001.torn.2", "0000000002.spared", ".seg", "LOCK", "note.txt",
	}
	for _, name := range strays {
		must(t, disk.WriteFile(logDir+"/"+name, []byte(name)))
	}
	must(t, disk.MkdirAll(logDir+"/folder"))
	must(t, s.run([]step{opens, appends(900), syncs, drops(1), prepares, closes, opens}))
	for _, name := range strays {
		if data, err := disk.Bytes(logDir + "/" + name); string(data) != name {
			t.Errorf("stray file %s is %q, %v", name, data, err)
		}
	}
}

func TestOpenClearsLeftovers(t *testing.T) {
	s, disk := start(t, segment.Options{SegmentSize: 1024, Spares: 2}, appends(600), closes)
	old := strings.Repeat("x", 1024)
	for name, data := range map[string]string{
		"0000000002.new": "half", "0000000007.new": old, "0000000003.spare": old,
		"0000000004.spare": old[:1023], "0000000005.spare": old, "0000000006.spare": old,
	} {
		must(t, disk.WriteFile(logDir+"/"+name, []byte(data)))
	}
	must(t, s.open(promiseWritten))
	wantNames(t, disk, "1.seg", "2.seg", "3.spare") // one was used for segment 2
	must(t, s.run([]step{appends(10), closes}))
	s.opts.Spares = 0
	must(t, s.open(promiseWritten))
	wantNames(t, disk, "1.seg", "2.seg", "3.seg")
}

func TestOpenRefuses(t *testing.T) {
	s, disk := start(t, smallOptions, appends(700, 700, 700, 700), closes)
	move := func(from, to byte) func(*segmenttest.FS) error {
		return func(f *segmenttest.FS) error { return f.Rename(segmentPath(from), segmentPath(to)) }
	}
	remove := func(digit byte) func(*segmenttest.FS) error {
		return func(f *segmenttest.FS) error { return f.Remove(segmentPath(digit)) }
	}
	foreign := func(f *segmenttest.FS) error { // another log's segment of the same number
		_, disk := start(t, smallOptions, appends(100, 700, 700, 700), closes)
		data, err := disk.Bytes(segmentPath('3'))
		return errors.Join(err, f.WriteFile(segmentPath('3'), data))
	}
	for _, tt := range []struct {
		name   string
		damage func(*segmenttest.FS) error
		path   string
		want   string // part of the error
	}{
		{"missing in the middle", remove('2'), segmentPath('2'), "missing"},
		{"wrong name, alone", func(f *segmenttest.FS) error {
			return errors.Join(remove('2')(f), remove('3')(f), remove('4')(f), move('1', '9')(f))
		}, segmentPath('9'), "file holds segment 1"},
		{"wrong name, last", func(f *segmenttest.FS) error {
			return errors.Join(remove('4')(f), f.Rename(segmentPath('1'), segmentPath('4')))
		}, segmentPath('4'), "file holds segment 1"},
		{"segment of another log", foreign, segmentPath('3'), "does not follow"},
		{"empty file", func(f *segmenttest.FS) error {
			return f.TruncateFile(segmentPath('4'), 0)
		}, segmentPath('4'), "shorter than a segment header"},
		{"no link in the first", func(f *segmenttest.FS) error {
			erase(t, f, segmentPath('2'), 64, 1024)
			return remove('1')(f)
		}, segmentPath('2'), "no link"},
		{"no link in the only one", func(f *segmenttest.FS) error {
			erase(t, f, segmentPath('3'), 64, 1024)
			return errors.Join(remove('1')(f), remove('2')(f), remove('4')(f))
		}, segmentPath('3'), "no link"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			image := disk.Kill()
			must(t, tt.damage(image))
			before := dump(t, image)
			_, _, err := segment.Open(logDir, s.on(image).opts, collect(new([]batch)))
			var damage *segment.CorruptionError
			if !errors.As(err, &damage) || damage.Path != tt.path ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("Open = %v, want damage of %s: %q", err, tt.path, tt.want)
			}
			if after := dump(t, image); len(after) != len(before) {
				t.Errorf("Open went from %d to %d files", len(before), len(after))
			}
			must(t, leaks(image))
		})
	}
}

// TestOpenVersion meets a segment of a format that is yet to come.
func TestOpenVersion(t *testing.T) {
	s, disk := start(t, smallOptions, appends(10), closes)
	data, err := disk.Bytes(segmentPath('1'))
	must(t, err)
	data[8] = 3
	must(t, disk.WriteFile(segmentPath('1'), refixHeader(data)))
	_, _, err = segment.Open(logDir, s.opts, collect(new([]batch)))
	if err == nil || !strings.Contains(err.Error(), "unknown format version") {
		t.Errorf("Open of format version 3 = %v, want that said", err)
	}
	if !errors.Is(err, segment.ErrUnknownVersion) || errors.Is(err, segment.ErrCorrupt) {
		t.Errorf("Open of format version 3 = %v, which is not damage", err)
	}
}

func TestOpenVisitorError(t *testing.T) {
	s, disk := start(t, smallOptions, appends(10, 20))
	image := disk.Kill()
	before := image.MutatingCalls()
	stop, visits := errors.New("enough"), 0
	_, _, err := segment.Open(logDir, s.on(image).opts, func(segment.Frame) error {
		visits++
		return stop
	})
	if !errors.Is(err, stop) || visits != 1 {
		t.Errorf("Open with a failing visitor = %v after %d visits, want its error after 1", err, visits)
	}
	if n := image.MutatingCalls() - before; n > 1 { // MkdirAll
		t.Errorf("it made %d calls that change the disk", n)
	}
	must(t, leaks(image))
	must(t, s.on(image).open(promiseWritten))
}

func TestOpenSmallestSegments(t *testing.T) {
	for _, size := range []int64{-1, 1, 63, 64, 200, 247, 248, 249} {
		s, disk := start(t, segment.Options{SegmentSize: size, Spares: 1})
		must(t, s.run([]step{
			appends(0, 1, 8, 100, 0), prepares, syncs, marks, drops(1), appends(0, 0), marks, closes, opens,
		}))
		must(t, s.on(disk.Kill()).open(promiseWritten))
	}
}

// TestOpenImpossibleHeaders has headers whose checksums are right and which cannot be.
func TestOpenImpossibleHeaders(t *testing.T) {
	for name, change := range map[string]func(header []byte){
		"id zero":       func(h []byte) { clear(h[24:32]) },
		"number zero":   func(h []byte) { clear(h[16:24]) },
		"size too low":  func(h []byte) { h[32], h[33] = 63, 0 },
		"size negative": func(h []byte) { h[39] = 0x80 },
		"magic":         func(h []byte) { h[0] = 'k' },
	} {
		disk := segmenttest.New()
		data := unhex(t, goldenHeader+goldenFirstLink+goldenEndMark)
		data = append(data, make([]byte, 512-len(data))...)
		change(data)
		must(t, disk.WriteFile(segmentPath('1'), refixHeader(data)))
		if _, _, err := segment.Scan(disk, logDir, nil); !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("%s: Scan = %v, want ErrCorrupt", name, err)
		}
	}
}

// TestOpenReadErrors has every read of a large and torn log fail.
func TestOpenReadErrors(t *testing.T) {
	l := store(t, step{"size", func(s *session) error { s.opts.SegmentSize = 6 << 20; return nil }},
		opens, appends(1<<20, 1<<20), syncs, appends(800<<10))
	third := int64(l.h.batches[2].position)
	l.h.batches = l.h.batches[:2]
	for _, torn := range []int64{third + 1, third + 1000} { // its header, its payload
		failed := 0
		for n := 1; ; n++ {
			image := l.disk.Kill()
			must(t, image.FlipBit(segmentPath('1'), torn, 0))
			image.SetFault(segmenttest.FailNth(segmenttest.OpReadAt, n, syscall.EIO))
			err := l.on(image).open(promiseSynced)
			if err == nil {
				break
			}
			failed++
			if !errors.Is(err, syscall.EIO) || errors.Is(err, segment.ErrCorrupt) {
				t.Errorf("Open with a failing read = %v, want EIO and no talk of damage", err)
			}
			must(t, leaks(image))
			image.SetFault(nil)
			must(t, l.on(image).open(promiseSynced))
		}
		if failed < 2 {
			t.Errorf("only %d reads failed", failed)
		}
	}
}

// TestOpenKeepsLeftovers cannot remove leftovers: they mean nothing, and the log opens. The next Open removes them.
func TestOpenKeepsLeftovers(t *testing.T) {
	s, disk := start(t, smallOptions, appends(10))
	must(t, s.close())
	for _, name := range []string{"1.spare", "2.new", "9.new"} {
		must(t, disk.WriteFile(logDir+"/000000000"+name, nil))
	}
	disk.SetFault(segmenttest.FailAllFrom(segmenttest.OpRemove, 1, syscall.EIO))
	if err := s.open(promiseWritten); !errors.Is(err, syscall.EIO) { // the new segment needs the name 2.new
		t.Errorf("Open without its name = %v, want EIO", err)
	}
	disk.SetFault(nil)
	must(t, disk.Remove(logDir+"/0000000002.new"))
	disk.SetFault(segmenttest.FailAllFrom(segmenttest.OpRemove, 1, syscall.EIO))
	must(t, s.open(promiseWritten))
	wantNames(t, disk, "1.seg", "1.spare", "2.seg", "9.new")
	disk.SetFault(nil)
	must(t, s.close())
	must(t, s.open(promiseWritten))
	wantNames(t, disk, "1.seg", "2.seg")
}

// An error of Accept comes when every frame has been visited, and leaves everything as it was.
func TestOpenAccept(t *testing.T) {
	l := store(t, opens, appends(10, 300), syncs, appends(40), prepares)
	image := l.disk.Kill()
	before := dump(t, image)
	refusal := errors.New("not this one")
	visited, atAccept := 0, 0
	opts := l.opts
	opts.FS = image
	opts.Accept = func() error { atAccept = visited; return refusal }
	_, _, err := segment.Open(logDir, opts, func(segment.Frame) error { visited++; return nil })
	if !errors.Is(err, refusal) || visited != 3 || atAccept != 3 {
		t.Errorf("Open = %v after %d frames, Accept after %d; want its error, 3 and 3",
			err, visited, atAccept)
	}
	if !maps.Equal(before, dump(t, image)) {
		t.Error("Open changed a log that was not accepted")
	}
}
