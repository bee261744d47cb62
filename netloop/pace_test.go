package netloop

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// stuckBacklog is a memory file system on which nothing is written to backlogs until disk is closed.
type stuckBacklog struct {
	*segmenttest.FS
	disk chan struct{}
}

// Uncached implements segment.UncachedFS.
func (f stuckBacklog) Uncached() segment.FS { return f }

func (f stuckBacklog) Create(path string) (segment.File, error) {
	file, err := f.FS.Create(path)
	if err == nil && strings.Contains(path, "backlog") {
		file = stuckFile{file, f.disk}
	}
	return file, err
}

type stuckFile struct {
	segment.File
	disk chan struct{}
}

func (f stuckFile) WriteAt(p []byte, off int64) (int, error) {
	<-f.disk
	return f.File.WriteAt(p, off)
}

// turnAt is turn, so many milliseconds after the last one.
func (lt *bulkTest) turnAt(later moment) (put []int64) {
	before := lt.depths()
	lt.at = lt.clock + later
	lt.step()
	for i, n := range lt.depths() {
		put = append(put, n-before[i])
	}
	return put
}

// untilPaced has connection 0 put items of a size until it is not read any more.
func (lt *bulkTest) untilPaced(t *testing.T, size int) {
	t.Helper()
	const most = 40 << 20
	for n := 0; len(lt.paced.conns) == 0; n += size {
		if n > most {
			t.Fatalf("still read after %d bytes", n)
		}
		lt.put(0, 1, size)
		lt.turnAt(1)
	}
}

// TestPace has a connection put to a queue whose backlog is not written. It is not read when the
// queue has some megabytes too much in memory, but for once a second, until the disk writes again. Another is served
// all the time.
//
// Its control is a driver that does not call pace.
func TestPace(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		const size = 32 << 10
		disk := stuckBacklog{segmenttest.New(), make(chan struct{})}
		writeAgain := sync.OnceFunc(func() { close(disk.disk) })
		defer writeAgain() // or a test that fails would not end
		queue := unsynced()
		queue.MaxMemorySize = 4 * size
		lt := newBulkTestOn(t, eventLoop, disk, queue, 2)
		lt.untilPaced(t, size)
		lt.put(0, 1, size)
		for range 10 {
			lt.put(1, 1, 1)
			lt.want("paced", lt.turnAt(1), 0, 1)
		}
		lt.want("a second later", lt.turnAt(maxPace), 0, 0) // from now on it is read
		lt.want("the next turn", lt.turnAt(0), 1, 0)
		lt.put(0, 1, size)
		lt.want("paced again", lt.turnAt(1), 0, 0)
		if got := lt.counters.Paced; got != 2 {
			t.Errorf("%d paces were counted, want 2", got)
		}
		writeAgain()
		for lt.engine.Ahead([]byte("q0")) {
			runtime.Gosched()
		}
		lt.want("the disk has caught up", lt.turnAt(1), 0, 0)
		lt.want("the next turn", lt.turnAt(0), 1, 0)
		if lt.paceEnds != 0 || len(lt.paced.conns) > 0 {
			t.Errorf("paced still: %d", len(lt.paced.conns))
		}
	})
}

// A paced connection whose peer is gone ends at once, and not when its pace does.
func TestPaceEnds(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		const size = 32 << 10
		disk := stuckBacklog{segmenttest.New(), make(chan struct{})}
		defer close(disk.disk)
		queue := unsynced()
		queue.MaxMemorySize = 4 * size
		lt := newBulkTestOn(t, eventLoop, disk, queue, 1)
		lt.untilPaced(t, size)
		unix.Shutdown(lt.peers[0], unix.SHUT_RDWR)
		lt.turnAt(1)
		if lt.conns[lt.fds[0]] != nil || len(lt.paced.conns) > 0 {
			t.Errorf("the connection is open after its peer has gone; %d paced", len(lt.paced.conns))
		}
	})
}

// TestRestOverQuota has a connection send more than its user's quota allows. It is not read for a millisecond for
// each request refused, ten at least and a second at most. Another connection is served all the time.
//
// Its control is a session that does not count refusals.
func TestRestOverQuota(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		lt := newBulkTest(t, eventLoop, unsynced(), 2)
		alice := grants(t, "alice", "put *")
		alice.Quota = access.Quota{Operations: 10}
		lt.conns[lt.fds[0]].session.joinAs(alice)
		lt.put(0, 16, 1)
		lt.want("what a second allows, and one", lt.turnAt(1), 11, 0)
		lt.put(0, 1, 1)
		for range minRest - 1 {
			lt.put(1, 1, 1)
			lt.want("at rest", lt.turnAt(1), 0, 1)
		}
		refused := func() int64 { return lt.counters.OverQuota.Operations }
		if got := refused(); got != 5 {
			t.Errorf("%d requests were refused before the rest ended, want 5", got)
		}
		lt.turnAt(1) // from now on it is read
		lt.turnAt(0)
		if got := refused(); got != 6 {
			t.Errorf("%d requests were refused when the rest had ended, want 6", got)
		}
		lt.turnAt(minRest)
		lt.put(0, 40, 1)
		lt.turnAt(0)
		lt.put(0, 1, 1)
		lt.turnAt(39)
		lt.turnAt(0)
		if got := refused(); got != 46 {
			t.Errorf("%d requests were refused 39 ms after 40 had been, want 46", got)
		}
		lt.turnAt(2 * maxPace)
		lt.want("when it may again", lt.turnAt(0), 1, 0)
		if got := lt.counters.Paced; got != 0 || lt.paceEnds != 0 || len(lt.paced.conns) > 0 {
			t.Errorf("%d paces for the disk; %d connections rest until %d", got, len(lt.paced.conns), lt.paceEnds)
		}
	})
}
