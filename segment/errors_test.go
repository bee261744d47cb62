package segment_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestErrorsNameFilesOnce tests that an error names the file once, by the name that it has now: a segment has been
// renamed since it was opened.
func TestErrorsNameFilesOnce(t *testing.T) {
	type world struct {
		*session
		disk *segmenttest.FS
		run  *segment.RunWriter
	}
	for _, tt := range []struct {
		fails segmenttest.OpKind
		do    func(world) error
		path  string
	}{
		{segmenttest.OpWriteAt, func(w world) error { return w.append(10) }, segmentPath('1')},
		{segmenttest.OpDatasync, func(w world) error {
			must(t, w.append(10))
			_, err := w.log.Sync()
			return err
		}, segmentPath('1')},
		{segmenttest.OpWriteOut, func(w world) error {
			must(t, w.append(300<<10))
			return w.log.WriteOut()
		}, segmentPath('1')},
		{segmenttest.OpWriteAt, func(w world) error { return w.run.Write() }, runName},
		{segmenttest.OpDatasync, func(w world) error {
			must(t, w.run.Write())
			return w.run.Sync()
		}, runName},
		{segmenttest.OpReadAt, func(w world) error {
			_, err := segment.OpenRun(w.disk, runName, goldenRunID, nil)
			return err
		}, runName},
	} {
		s, disk := start(t, segment.Options{SegmentSize: 1 << 20})
		run := newRun(t, disk, segment.Cached)
		run.Add(new(segment.Coder), runTag(), []byte("body"))
		disk.SetFault(segmenttest.FailAllFrom(tt.fails, 0, syscall.EIO))
		err := tt.do(world{s, disk, run})
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%v fails, and the error is %v", tt.fails, err)
			continue
		}
		if text := err.Error(); strings.Count(text, tt.path) != 1 || strings.Contains(text, ".new") {
			t.Errorf("when %v fails the error is %q, want that it names %s once, and nothing else", tt.fails, text, tt.path)
		}
	}
}
