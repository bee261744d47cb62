package segment_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

func TestRotate(t *testing.T) {
	for _, prepared := range []bool{false, true} {
		s, disk := start(t, smallOptions, appends(600))
		if !s.log.NeedsPrepare() {
			t.Error("NeedsPrepare = false without a prepared segment")
		}
		if prepared {
			must(t, s.log.Prepare())
			must(t, s.log.Prepare()) // the second has nothing to do
			if s.log.NeedsPrepare() {
				t.Error("NeedsPrepare = true with a prepared segment")
			}
			wantNames(t, disk, "1.seg", "2.seg")
		}
		made := disk.Calls(segmenttest.OpCreate)
		must(t, s.append(600))
		if got := disk.Calls(segmenttest.OpCreate) - made; (got == 0) != prepared {
			t.Errorf("with prepared = %v, Append makes %d files", prepared, got)
		}
		all := s.log.Segments()
		if len(all) != 2 || all[0].Size != 1024 || s.h.batches[1].segment != 2 {
			t.Errorf("Segments = %+v, want two, the last with the second batch", all)
		}
		must(t, checkSegments(all))
		must(t, s.on(disk.Kill()).open(promiseWritten))
		must(t, s.close())
		must(t, leaks(disk))
	}
}

func TestFrameLargerThanSegment(t *testing.T) {
	for _, prepared := range []bool{false, true} {
		s, disk := start(t, smallOptions, appends(10))
		if prepared {
			must(t, s.log.Prepare()) // of no use
		}
		must(t, s.run([]step{appends(5000, 10, 900), syncs}))
		all := s.log.Segments()
		if all[1].Size <= 5000 || all[2].Size != 1024 || s.h.batches[2].segment != 3 {
			t.Errorf("Segments = %+v, want one for the large frame alone", all)
		}
		must(t, s.drop(1))
		wantNames(t, disk, "1.spare", "4.seg") // the large file is not kept
		must(t, s.on(disk.Kill()).open(promiseWritten))
		must(t, s.close())
		must(t, leaks(disk))
	}
}

// TestFillToTheByte fills segments such that the trailer just fits, and that it just does not.
func TestFillToTheByte(t *testing.T) {
	for n := 700; n < 1000; n++ {
		s, disk := start(t, smallOptions)
		room := s.log.Room()
		must(t, s.append(n))
		frame := int64(segment.FrameHeaderSize+n+7) &^ 7
		if fits := s.h.batches[0].segment == 1; fits != (frame <= room) {
			t.Fatalf("frame of %d bytes with room for %d: in the tail: %v", frame, room, fits)
		}
		must(t, s.append(1000))
		for _, seg := range s.log.Segments() {
			data, err := disk.Bytes(fmt.Sprintf("%s/%010d.seg", logDir, seg.Number))
			must(t, err)
			if int64(len(data)) != seg.Size {
				t.Fatalf("with a frame of %d bytes, segment %d grew from %d to %d bytes",
					frame, seg.Number, seg.Size, len(data))
			}
		}
		must(t, s.on(disk.Kill()).open(promiseWritten))
	}
}

func TestRoom(t *testing.T) {
	s, disk := start(t, smallOptions)
	const whole = 1024 - 64 - 72 - 56 - 40 // header, link, trailer, mark
	if got := s.log.Room(); got != whole {
		t.Errorf("Room of a new log = %d, want %d", got, whole)
	}
	must(t, s.append(10))
	must(t, s.log.Prepare())
	if got := s.log.Room(); got != 2*whole-56 {
		t.Errorf("Room with a prepared segment = %d, want %d", got, 2*whole-56)
	}
	disk.DiskFull(0) // the room is there even so
	must(t, s.append(whole-56-40))
	must(t, s.append(whole-40))
	if got := s.log.Room(); got != 0 {
		t.Errorf("Room of a full log = %d, want 0", got)
	}
	if err := s.append(0); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Append beyond it = %v, want ENOSPC", err)
	}
	must(t, s.close()) // needs no more disk either
}

func TestDiskFull(t *testing.T) {
	s, disk := start(t, smallOptions, appends(600))
	disk.DiskFull(1500)
	for range 3 {
		if err := s.append(600); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Append on a full disk = %v, want ENOSPC", err)
		}
		if err := s.log.Prepare(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Prepare on a full disk = %v, want ENOSPC", err)
		}
	}
	wantNames(t, disk, "1.seg") // nothing of the tries is left
	must(t, s.append(20))       // what fits into the tail goes there
	disk.DiskFull(-1)
	must(t, s.append(600))
	must(t, s.on(disk.Kill()).open(promiseWritten))
	must(t, s.close())
	must(t, leaks(disk))
}

// TestSparesServeAFullDisk rotates and opens where only dropped segments are left to use.
func TestSparesServeAFullDisk(t *testing.T) {
	s, disk := start(t, segment.Options{SegmentSize: 1024, Spares: 2}, appends(600, 600, 600), syncs)
	must(t, s.drop(1))
	wantNames(t, disk, "1.spare", "2.spare", "3.seg")
	disk.DiskFull(0)
	must(t, s.append(600)) // without Prepare
	wantNames(t, disk, "1.spare", "3.seg", "4.seg")
	image := disk.Kill()
	image.DiskFull(0)
	must(t, s.on(image).open(promiseWritten))
	wantNames(t, image, "3.seg", "4.seg", "5.seg")
}

func TestPrepareUsesSpare(t *testing.T) {
	s, disk := start(t, smallOptions, appends(600, 600, 600), syncs)
	must(t, s.drop(1))
	wantNames(t, disk, "1.spare", "3.seg") // Spares is 1
	made := disk.Calls(segmenttest.OpCreate)
	must(t, s.log.Prepare())
	wantNames(t, disk, "3.seg", "4.seg")
	if got := disk.Calls(segmenttest.OpCreate) - made; got != 0 {
		t.Errorf("Prepare with a spare makes %d files", got)
	}
	must(t, s.append(700)) // among the old bytes
	for _, how := range crashes(1, 5) {
		must(t, s.on(how.image(disk)).open(how.promise()))
	}
}

// TestSpareGoneBad has Prepare fail with a spare: it is not tried again, nor left to take up room.
func TestSpareGoneBad(t *testing.T) {
	for _, kind := range []segmenttest.OpKind{
		segmenttest.OpOpen, segmenttest.OpWriteAt, segmenttest.OpDatasync, segmenttest.OpRename,
	} {
		s, disk := start(t, smallOptions, appends(600, 600, 600), syncs, drops(1))
		failNext(disk, kind, syscall.EIO)
		if err := s.log.Prepare(); !errors.Is(err, syscall.EIO) {
			t.Errorf("Prepare with a failing %v = %v, want EIO", kind, err)
		}
		disk.SetFault(nil)
		wantNames(t, disk, "3.seg")
		must(t, s.log.Prepare())
		must(t, s.run([]step{appends(600), syncs, closes}))
		must(t, leaks(disk))
	}
}

// TestZeroFill sees new files written over once: those of a log that is new, and behind a segment
// whose syncs covered little each.
func TestZeroFill(t *testing.T) {
	const half = 60000 // bytes of a frame; two fill a segment
	s, disk := start(t, segment.Options{SegmentSize: 128 << 10})
	if got := disk.Calls(segmenttest.OpWriteAt); got != 3 {
		t.Errorf("a new log begins with %d writes, want 3: zeros, header, link", got)
	}
	prepare := func(want int) {
		t.Helper()
		before := disk.Calls(segmenttest.OpWriteAt)
		must(t, s.log.Prepare())
		if got := disk.Calls(segmenttest.OpWriteAt) - before; got != want {
			t.Errorf("Prepare makes %d writes, want %d", got, want)
		}
	}
	syncs := func(n int) {
		for range n {
			must(t, s.append(0))
			must(t, s.sync())
		}
	}
	prepare(2) // zeros, header
	must(t, s.append(half))
	must(t, s.append(half))
	syncs(1)
	must(t, s.append(half)) // in the second segment
	prepare(1)              // the header: one sync covered a whole segment
	syncs(4)
	must(t, s.append(half))
	must(t, s.append(half)) // in the third
	prepare(2)              // four syncs did
	must(t, s.append(half))
	must(t, s.append(half)) // in the fourth
	syncs(4)
	prepare(2) // of the tail itself
	must(t, s.append(half))
	must(t, s.on(disk.Kill()).open(promiseWritten))
}

// TestHalfRotated has sealing work and the linking or the batch behind it fail. The log must
// neither take that for an end nor forget what it holds.
func TestHalfRotated(t *testing.T) {
	for _, failing := range []struct{ write, bytes int }{
		{2, 0}, {2, 10}, {2, 72}, {2, 80}, // of a link of 72 bytes and an end mark
		{3, 0}, {3, 100},
	} {
		for _, then := range []step{appends(5), appends(900), appends(3000), closes} {
			s, disk := start(t, smallOptions, appends(600), prepares)
			n := disk.Calls(segmenttest.OpWriteAt) + failing.write // trailer, link, batch
			disk.SetFault(func(op segmenttest.Op) segmenttest.Fault {
				if op.Kind == segmenttest.OpWriteAt && op.KindN == n {
					return segmenttest.Fault{Err: syscall.EIO, Bytes: failing.bytes}
				}
				return segmenttest.Fault{}
			})
			if err := s.append(600); !errors.Is(err, syscall.EIO) {
				t.Fatalf("Append = %v, want EIO", err)
			}
			must(t, s.on(disk.Kill()).open(promiseWritten))
			must(t, then.do(s))
			must(t, s.on(disk.Kill()).open(promiseWritten))
			if then.name != closes.name {
				must(t, s.close())
			}
			must(t, leaks(disk))
			image := disk.Kill()
			must(t, image.FlipBit(segmentPath('1'), 150, 0)) // in the first batch
			_, _, err := segment.Open(logDir, s.on(image).opts, collect(new([]batch)))
			if !errors.Is(err, segment.ErrCorrupt) {
				t.Errorf("damage after %+v, %s: Open = %v, want ErrCorrupt", failing, then.name, err)
			}
		}
	}
}

// heldFS makes Create wait until the test lets it go on.
type heldFS struct {
	segment.FS
	held chan struct{} // nil: no waiting
}

func (h *heldFS) Create(name string) (segment.File, error) {
	if h.held != nil {
		<-h.held
	}
	return h.FS.Create(name)
}

// TestAppendWaitingForPrepare ends the log in every way while an Append waits for Prepare.
func TestAppendWaitingForPrepare(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*session, *segmenttest.FS)
		want error
	}{
		{"not at all", func(*session, *segmenttest.FS) {}, nil},
		{"poison", func(s *session, disk *segmenttest.FS) {
			failNext(disk, segmenttest.OpDatasync, syscall.EIO)
			s.log.Sync()
		}, segment.ErrPoisoned},
		{"close", func(s *session, _ *segmenttest.FS) {
			go s.log.Close() // waits too
			synctest.Wait()
		}, segment.ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := segmenttest.New()
				held := &heldFS{FS: disk}
				watch := &syncWatch{}
				s := newSession(watch.on(held), smallOptions)
				must(t, s.run([]step{opens, appends(600)}))
				held.held = make(chan struct{})
				go s.log.Prepare()
				synctest.Wait()
				var at segment.Appended
				var appendErr error
				go func() {
					at, _, appendErr = s.log.Append(make([]byte, segment.FrameHeaderSize+600))
				}()
				synctest.Wait()
				tt.end(s, disk)
				writes := disk.Calls(segmenttest.OpWriteAt)
				close(held.held)
				synctest.Wait()
				writes = disk.Calls(segmenttest.OpWriteAt) - writes
				if !errors.Is(appendErr, tt.want) || tt.want == nil && at.Segment != 2 {
					t.Errorf("Append = %+v, %v, want %v", at, appendErr, tt.want)
				}
				if tt.want == segment.ErrPoisoned && writes > 2 { // zeros and the header of the prepared segment
					t.Errorf("%d writes after the poisoning", writes)
				}
				if len(watch.broken) > 0 {
					t.Error(watch.broken)
				}
				s.log.Close()
				must(t, leaks(disk))
			})
		})
	}
}

// TestPrepareOverLeftover finds the temporary name taken, as after a removal that failed.
func TestPrepareOverLeftover(t *testing.T) {
	s, disk := start(t, smallOptions, appends(10))
	must(t, disk.WriteFile(logDir+"/0000000002.new", []byte("left over")))
	failNext(disk, segmenttest.OpRemove, syscall.EIO)
	if err := s.log.Prepare(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Prepare that cannot remove what is in its way = %v, want EIO", err)
	}
	disk.SetFault(nil)
	must(t, s.log.Prepare())
	wantNames(t, disk, "1.seg", "2.seg")
	must(t, s.run([]step{appends(700), closes}))
	must(t, leaks(disk))
}
