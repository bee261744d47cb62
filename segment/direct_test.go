package segment_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// realDirs returns a directory where tests have theirs, and one in memory if there is such a disk.
func realDirs(t *testing.T) []string {
	dirs := []string{t.TempDir()}
	if dir, err := os.MkdirTemp("/dev/shm", "kestrel-test-"); err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		dirs = append(dirs, dir)
	}
	return dirs
}

// TestRunOnDisk writes and reads runs on real file systems, both ways.
func TestRunOnDisk(t *testing.T) {
	for _, dir := range realDirs(t) {
		eachIO(t, func(t *testing.T, mode segment.IO) {
			name := filepath.Join(dir, fmt.Sprint("run-", mode))
			w, err := segment.CreateRunAs(segment.OS{}, name, goldenRunID, mode)
			must(t, err)
			want := writeMany(t, w, segment.CodecS2)
			must(t, w.Sync())
			got, err := readRun(segment.OS{}, name, goldenRunID, w.End())
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: read %d frames, %v, want %d, the same", name, len(got), err, len(want))
			}
			// What a run is not known to have is damage, however the file ends.
			must(t, os.Truncate(name, w.End()-4096-9))
			if _, err := readRun(segment.OS{}, name, goldenRunID, w.End()); !errors.Is(err, segment.ErrCorrupt) {
				t.Errorf("%s: a run that was cut reads with %v, want ErrCorrupt", name, err)
			}
			must(t, w.Close())
		})
	}
}

// TestRunGrows reads a run, with one reader, while it is written: whatever was said to be written
// is there. Its control is a ReadAhead that reads past end and takes what is not there for zeros.
func TestRunGrows(t *testing.T) {
	const frames = 300
	disks := map[string]segment.FS{"memory": segmenttest.New()}
	names := map[string]string{"memory": "run"}
	for _, dir := range realDirs(t) {
		disks[dir], names[dir] = segment.OS{}, filepath.Join(dir, "run")
	}
	for where, disk := range disks {
		eachIO(t, func(t *testing.T, mode segment.IO) {
			name := names[where] + fmt.Sprint(mode)
			w, err := segment.CreateRunAs(disk, name, goldenRunID, mode)
			must(t, err)
			defer w.Close()
			body := func(i int) []byte { return bytes.Repeat([]byte{byte(i), 'x'}, i*37%6000) }
			ends := make(chan int64, frames) // all of them: the writer never waits
			go func() {
				defer close(ends)
				for i := range frames {
					w.Add(nil, runTag(), body(i))
					if err := w.Write(); err != nil {
						t.Error(err)
						return
					}
					ends <- w.End()
				}
			}()
			defer func() {
				for range ends { // until the writer is done with the file
				}
			}()
			end := <-ends // the header is written with the first frame
			r, err := segment.OpenRun(disk, name, goldenRunID, &segment.ReadAhead{})
			must(t, err)
			defer r.Close()
			var c segment.Coder
			i, off := 0, int64(segment.RunStart)
			for ok := true; ok; end, ok = <-ends {
				for ; off < end; i++ {
					f, err := r.Frame(off, end)
					must(t, err)
					got, err := r.Body(&c, nil, f)
					if err != nil || !bytes.Equal(got, body(i)) {
						t.Fatalf("%s: frame %d at %d of %d is %.20q, %v", where, i, off, end, got, err)
					}
					off = f.Next
				}
			}
			if i != frames {
				t.Errorf("%s: %d frames were read, want %d", where, i, frames)
			}
		})
	}
}

// TestReadAheadKnows has what is behind the end of a run change: nothing of it was kept. Its control
// is readAt without its last step.
func TestReadAheadKnows(t *testing.T) {
	disk := segmenttest.New()
	w := newRun(t, disk, segment.Direct)
	w.Add(nil, runTag(), []byte("one"))
	must(t, w.Write())
	end := w.End()
	r, err := segment.OpenRun(disk, runName, goldenRunID, &segment.ReadAhead{})
	must(t, err)
	defer r.Close()
	for i := range 3 { // attempts to write, of which the last succeeds
		data, err := disk.Bytes(runName)
		must(t, err)
		must(t, disk.WriteFile(runName, append(data[:end], bytes.Repeat([]byte{byte(i)}, 8192)...)))
		if _, err := r.Frame(segment.RunStart, end); err != nil {
			t.Error(err)
		}
		if _, err := r.Frame(end, end); !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("Frame where nothing was written = %v", err)
		}
	}
	w.Add(nil, runTag(), []byte("two"))
	must(t, w.Write())
	f, err := r.Frame(end, w.End())
	must(t, err)
	if body, err := r.Body(&segment.Coder{}, nil, f); err != nil || string(body) != "two" {
		t.Errorf("body = %q, %v, want two", body, err)
	}
}

// TestReadAhead counts reads. To read everything takes few and large ones, and to read headers alone takes small ones.
// Readers that share one ReadAhead see their own files.
func TestReadAhead(t *testing.T) {
	const frames, size = 64, 100_000
	disk := segmenttest.New()
	names := []string{"a", "b"}
	for _, name := range names {
		w, err := segment.CreateRunAs(disk, name, goldenRunID, segment.Direct)
		must(t, err)
		for range frames {
			w.Add(nil, runTag(), bytes.Repeat([]byte(name), size))
			must(t, w.Write())
		}
		must(t, w.Close())
	}
	data, err := disk.Bytes("a")
	must(t, err)
	end := int64(len(data))
	var reads, sum, most int
	disk.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if op.Kind == segmenttest.OpReadAt {
			reads, sum, most = reads+1, sum+op.Size, max(most, op.Size)
		}
		return segmenttest.Fault{}
	})
	_, err = readRunBy(disk, "a", goldenRunID, end, &segment.ReadAhead{})
	must(t, err)
	if want := int(end)/segment.ScanAhead + 10; reads > want || most > segment.ScanAhead {
		t.Errorf("%d reads of at most %d bytes for a run of %d, want %d", reads, most, end, want)
	}
	reads, sum = 0, 0
	shared := &segment.ReadAhead{}
	var readers []*segment.RunReader
	for _, name := range names {
		r, err := segment.OpenRun(disk, name, goldenRunID, shared)
		must(t, err)
		defer r.Close()
		readers = append(readers, r)
	}
	for off := int64(segment.RunStart); off < end; {
		f, err := readers[0].Frame(off, end)
		must(t, err)
		off = f.Next
	}
	if want := (frames + 4) * segment.MinReadAhead; sum > want {
		t.Errorf("%d bytes are read for %d headers, want %d at most", sum, frames, want)
	}
	for off := int64(segment.RunStart); off < end; {
		var next int64
		for i, r := range readers {
			f, err := r.Frame(off, end)
			must(t, err)
			body, err := r.Body(&segment.Coder{}, nil, f)
			if err != nil || !bytes.Equal(body, bytes.Repeat([]byte(names[i]), size)) {
				t.Fatalf("frame at %d of %s is %.10q, %v", off, names[i], body, err)
			}
			next = f.Next
		}
		off = next
	}
}

// TestUncachedOS does past the page cache, on real disks, what is in whole blocks and what is not.
func TestUncachedOS(t *testing.T) {
	for _, dir := range realDirs(t) {
		name := filepath.Join(dir, "file")
		fsys := segment.OS{}.Uncached()
		f, err := fsys.Create(name)
		must(t, err)
		if _, err := fsys.Create(name); !errors.Is(err, os.ErrExist) {
			t.Errorf("Create of an existing file = %v, want ErrExist", err)
		}
		t.Logf("%s: past the page cache: %v", dir, segment.PastCache(f))
		block := segment.BlockBuffer(2 * segment.BlockSize)
		block = block[:cap(block)]
		copy(block, "hello")
		for _, at := range []int64{0, 2 * segment.BlockSize} {
			if n, err := f.WriteAt(block, at); n != len(block) || err != nil {
				t.Errorf("WriteAt = %d, %v", n, err)
			}
		}
		must(t, f.Datasync())
		r, err := fsys.OpenReadOnly(name)
		must(t, err)
		size := int64(4 * segment.BlockSize)
		readsEnd := func(end int64) {
			t.Helper()
			for at := int64(0); at < size+segment.BlockSize; at += segment.BlockSize {
				want := min(max(end-at, 0), int64(len(block)))
				n, err := r.ReadAt(block, at)
				if int64(n) != want || (err == io.EOF) != (n < len(block)) || err != nil && err != io.EOF {
					t.Errorf("%s of %d bytes: ReadAt %d = %d, %v, want %d", name, end, at, n, err, want)
				}
			}
		}
		readsEnd(size)
		must(t, f.Truncate(size-100)) // not in whole blocks
		readsEnd(size - 100)
		must(t, r.Close())
		r, err = fsys.Open(name)
		must(t, err)
		got := make([]byte, 9)
		if n, err := r.ReadAt(got[1:6], 0); n != 5 || err != nil || string(got[1:6]) != "hello" {
			t.Errorf("ReadAt of a part of a block = %q, %v", got, err)
		}
		for i, at := range []int64{3, 4000, 8190} {
			word := fmt.Sprint("word-", i)
			if n, err := f.WriteAt([]byte(word), at); n != len(word) || err != nil {
				t.Errorf("WriteAt of a part of a block = %d, %v", n, err)
			}
			if _, err := r.ReadAt(got[:len(word)], at); err != nil || string(got[:len(word)]) != word {
				t.Errorf("%q is written, and %q, %v read", word, got, err)
			}
		}
		if segment.PastCache(f) {
			t.Logf("%s: parts of blocks can be written past the page cache", dir)
		}
		must(t, r.Close())
		must(t, f.Close())
	}
}

// TestBlockBuffer tests that buffers have the room asked for, in whole blocks, and begin where the
// kernel wants them.
func TestBlockBuffer(t *testing.T) {
	for _, tt := range []struct{ n, room, align int }{
		{1, segment.BlockSize, segment.BlockSize},
		{segment.BlockSize, segment.BlockSize, segment.BlockSize},
		{300<<10 + 1, 304 << 10, segment.BlockSize},
		{1 << 20, 1 << 20, segment.HugePage},
		{5<<20 + 1, 5<<20 + segment.BlockSize, segment.HugePage},
	} {
		b := segment.BlockBuffer(tt.n)
		if len(b) != 0 || cap(b) != tt.room {
			t.Errorf("buffer for %d bytes: length %d, capacity %d, want 0 and %d", tt.n, len(b), cap(b), tt.room)
		}
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(b))); at%uintptr(tt.align) != 0 {
			t.Errorf("buffer for %d bytes begins at %#x, want a multiple of %d", tt.n, at, tt.align)
		}
		clear(b[:cap(b)])
	}
}
