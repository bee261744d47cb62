package engine

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// mountTmpfs mounts a file system in memory of so many bytes, or skips the test.
func mountTmpfs(t *testing.T, size int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", size))
	if err != nil {
		t.Skipf("a tmpfs cannot be mounted here (that takes root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestTmpfsFillsUp fills a real disk of 2 MiB, again and again. Puts are refused for want of disk,
// gets and confirms go on, and puts are taken again once there is room. Nothing acknowledged is
// lost, also over a restart with no more room than the reserve.
//
// Its control is runLimit without the size of the disk. One run then holds all of the queue, and
// nothing becomes free before the last item has been taken.
func TestTmpfsFillsUp(t *testing.T) {
	for _, reserve := range []int64{512 << 10, 1} {
		t.Run(fmt.Sprint("reserve=", reserve), func(t *testing.T) {
			f := &fillingUp{opts: Options{
				Dir: mountTmpfs(t, 2<<20), JournalSize: 256 << 10, SegmentSize: 64 << 10,
				DiskReserve: reserve, Settings: Settings{Default: DefaultQueueOptions()},
			}}
			f.opts.Settings.Default.MaxMemorySize = 64 << 10
			f.open(t)
			for round := range 6 {
				f.fill(t)
				if round%2 == 1 && reserve > 1 { // a start needs room for a segment: the reserve
					if err := f.e.Close(); err != nil {
						t.Fatal(err)
					}
					f.open(t)
				}
				f.take(t, len(f.items)*(3+round%3)/6)
				if !f.recovers(t) {
					t.Fatalf("round %d: puts are refused still, with %d items left", round, len(f.items))
				}
			}
			f.take(t, len(f.items))
			if _, ok := tryGet(t, f.e, "q"); ok {
				t.Error("there are more items than were acknowledged")
			}
			verify(t, f.e)
			if f.refused < 6 || f.puts < 1000 {
				t.Errorf("%d puts were taken, %d refused", f.puts, f.refused)
			}
			if err := f.e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// fillingUp is a queue on a small disk.
type fillingUp struct {
	opts    Options
	e       *Engine
	items   []string // acknowledged, and there
	puts    int
	refused int
}

func (f *fillingUp) open(t *testing.T) {
	t.Helper()
	var err error
	if f.e, err = open(f.opts); err != nil {
		t.Fatal(err)
	}
}

// tend does what runs in the background.
func (f *fillingUp) tend() {
	e := f.e
	e.measureDisk()
	if e.journal.Failing() || e.journal.Full() {
		e.retryJournal()
	}
	e.boundJournal()
	e.spool.tend()
	spoolSome(e, 200)
	e.trimJournal()
	e.journal.Prepare()
	e.writeLeftOver()
}

// put puts an item and reports whether it was acknowledged; if not, it must be for want of disk.
func (f *fillingUp) put(t *testing.T) bool {
	t.Helper()
	data := fmt.Sprintf("%06d%s", f.puts, strings.Repeat("x", 2000))
	ticket, err := f.e.Put(Now(), []byte("q"), PutRequest{Data: []byte(data)})
	if err == nil {
		if err = f.e.Commit(ticket); err != nil {
			t.Fatalf("put %d was taken, and then %v", f.puts, err)
		}
		f.puts++
		f.items = append(f.items, data)
		return true
	}
	if !errors.Is(err, ErrOutOfDisk) {
		t.Fatalf("put %d = %v, want ErrOutOfDisk", f.puts, err)
	}
	f.refused++
	return false
}

// fill puts until puts are refused.
func (f *fillingUp) fill(t *testing.T) {
	t.Helper()
	for n := 0; ; n++ {
		if n%8 == 0 {
			f.tend()
		}
		if !f.put(t) {
			return
		}
		if n > 2000 {
			t.Fatal("a disk of 2 MiB takes more than 4 MB")
		}
	}
}

// take takes n items, half of them by confirming, and compares them.
func (f *fillingUp) take(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		want := f.items[0]
		f.items = f.items[1:]
		var got string
		if i%2 == 0 {
			got = mustGet(t, f.e, "q")
		} else {
			got = f.confirm(t)
		}
		if got != want {
			t.Fatalf("got %.10s, want %.10s, with %d left", got, want, len(f.items))
		}
		if i%8 == 0 {
			f.tend()
		}
	}
}

func (f *fillingUp) confirm(t *testing.T) string {
	t.Helper()
	var c copied
	request := FetchRequest{Access: OpenRead}
	got, err := f.e.Fetch(Now(), []byte("q"), request, &c)
	for ; err == ErrComing; got, err = f.e.Fetch(Now(), []byte("q"), request, &c) {
		spoolAll(f.e)
	}
	if err != nil {
		t.Fatal(err)
	}
	mustCommitted(t, f.e)(f.e.Confirm(Now(), got.Read))
	return string(c.item.Data)
}

// recovers reports whether puts are taken again, by themselves.
func (f *fillingUp) recovers(t *testing.T) bool {
	t.Helper()
	for range 10 {
		if f.tend(); f.put(t) {
			return true
		}
	}
	return false
}
