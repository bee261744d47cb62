package segment_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// lives are logs whose newest segments come about in every way. They come from a rotation, with and without a prepared
// segment, or from a start. That start follows a kill, a close, or a start that wrote nothing.
var lives = map[string][]step{
	"rotated":        {opens, appends(10, 700), syncs, appends(700), prepares, appends(700, 60)},
	"one segment":    {opens, appends(10), syncs},
	"closed":         {opens, appends(10, 700), prepares, appends(700), closes, opens, appends(30), prepares},
	"closed, unused": {opens, appends(10), closes, opens, closes, opens, appends(900, 900), marks},
	"first dropped":  {opens, appends(900, 900, 900), syncs, drops(2), appends(40), closes, opens, appends(900), syncs},
	"sealed":         {opens, appends(30), seals, appends(20), seals, seals},
}

var seals = step{"seal", func(s *session) error { _, err := s.log.Seal(); return err }}

// TestMissingAtTheEnd removes up to all but one of the newest segments of a log. Open, Scan and Salvage call what is
// left damaged, and Open changes nothing.
func TestMissingAtTheEnd(t *testing.T) {
	for name, steps := range lives {
		s, disk := start(t, smallOptions, steps[1:]...)
		for _, kill := range []bool{true, false} {
			image := disk.Kill()
			l := s.on(image)
			if !kill { // a start comes between, so the process that wrote the segments is another one
				must(t, l.open(promiseWritten))
				must(t, l.close())
			}
			segments, err := segment.List(image, logDir)
			must(t, err)
			last := segments[len(segments)-1]
			for i := len(segments) - 1; i > 0; i-- {
				data, _ := image.Bytes(segments[i].Path())
				if ref, _ := refRead(data); len(ref.frames) == 0 { // prepared: nobody misses it
					must(t, image.Remove(segments[i].Path()))
					continue
				}
				must(t, image.Remove(segments[i].Path()))
				where := fmt.Sprintf("%s, killed %v: segments from %d to %d are missing", name, kill, segments[i].Number, last.Number)
				if err := wantMissing(t, l, image, segments[i].Path()); err != nil {
					t.Errorf("%s: %v", where, err)
				}
			}
		}
		must(t, s.log.Close())
	}
}

// wantMissing returns a violation unless a log is damaged because the segment of a path is missing.
func wantMissing(t *testing.T, s *session, image *segmenttest.FS, path string) error {
	t.Helper()
	l := &storedLog{session: s, disk: image}
	if err := l.judge(t, image, path, verdict{damage: true}); err != nil {
		return err
	}
	before := dump(t, image)
	_, _, err := segment.Scan(image, logDir, nil)
	if err == nil || !strings.Contains(err.Error(), path) {
		return violationf("Scan = %v, want damage of %s", err, path)
	}
	_, gaps, err := salvaged(image)
	must(t, err)
	if !slices.ContainsFunc(gaps, func(g segment.Gap) bool { return g.Path == path && g.Batches }) {
		return violationf("Salvage has gaps %+v, want one of %s", gaps, path)
	}
	if !maps.Equal(before, dump(t, image)) {
		return violationf("reading changed the log")
	}
	return nil
}

// TestMarkWithoutTrailer has the trailer of a segment torn by a power cut, and the mark behind it whole. Recovery writes
// that trailer again, and is killed in the middle of every call: the next start must not miss the segment behind it.
func TestMarkWithoutTrailer(t *testing.T) {
	s, disk := start(t, smallOptions, appends(10, 600), appends(600))
	ref, _ := refRead(bytesOf(t, disk, segmentPath('1')))
	last := ref.frames[len(ref.frames)-1]
	erase(t, disk, segmentPath('1'), last.offset, last.offset+8)
	for n, stopped := 1, true; stopped; n++ {
		stopped = false
		for _, partial := range []int{0, 50, 60} {
			image := disk.Kill()
			image.StopInWrite(n, partial)
			err := s.on(image).open(promiseSynced)
			if stopped = stopped || err != nil; err != nil && !errors.Is(err, segmenttest.ErrStopped) {
				t.Fatal(err)
			}
			if err := s.on(image.Kill()).open(promiseSynced); err != nil {
				t.Errorf("recovery killed in call %d, with %d bytes written: %v", n, partial, err)
			}
		}
	}
	must(t, s.log.Close())
}

func bytesOf(t *testing.T, disk *segmenttest.FS, name string) []byte {
	t.Helper()
	data, err := disk.Bytes(name)
	must(t, err)
	return data
}
