package retain

import (
	"bytes"
	"errors"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestFiles retains the segments that a backup has not copied, and those of one backup at a time.
func TestFiles(t *testing.T) {
	var f Files
	if f.HasSegments() || f.SegmentsTo(7) != 7 {
		t.Error("segments are retained without a backup")
	}
	if !f.Begin() || f.Begin() {
		t.Error("a second backup began")
	}
	f.Runs.Store(true)
	for _, tt := range []struct{ oldest, needed, want uint64 }{{1, 7, 1}, {5, 7, 5}, {5, 3, 3}, {0, 7, 7}} {
		f.SegmentsFrom(tt.oldest)
		if got := f.SegmentsTo(tt.needed); got != tt.want || f.HasSegments() != (tt.oldest > 0) {
			t.Errorf("%+v: segments may be dropped up to %d", tt, got)
		}
	}
	f.End()
	if f.Runs.Load() || !f.Begin() {
		t.Error("the end of a backup retains something")
	}
}

// TestCopy copies a part of a file, until it is to stop.
func TestCopy(t *testing.T) {
	fsys := segmenttest.New()
	file, err := fsys.Create("file")
	if err != nil {
		t.Fatal(err)
	}
	all := bytes.Repeat([]byte("kestrel "), 2*copyPiece/8+100)
	if _, err := file.WriteAt(all, 0); err != nil {
		t.Fatal(err)
	}
	c := Copier{FS: fsys}
	var got bytes.Buffer
	pieces, stopped := 0, errors.New("stopped")
	stop := func() error {
		if pieces++; pieces > 4 {
			return stopped
		}
		return nil
	}
	size := int64(len(all) - 5)
	if err := c.Copy(&got, "file", size, stop); err != nil || !bytes.Equal(got.Bytes(), all[:size]) || pieces != 3 {
		t.Errorf("%d bytes were copied in %d pieces, %v", got.Len(), pieces, err)
	}
	if err := c.Copy(&got, "file", size, stop); !errors.Is(err, stopped) {
		t.Errorf("a copy that is to stop: %v", err)
	}
	pieces = 0
	if err := c.Copy(&got, "file", int64(len(all))+1, stop); err == nil {
		t.Error("more was copied than there is")
	}
	if head, err := c.Head("file"); err != nil || !bytes.Equal(head[:], all[:segment.HeadSize]) {
		t.Errorf("the head is %q, %v", head, err)
	}
}
