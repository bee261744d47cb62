package netloop

import (
	"golang.org/x/sys/unix"
)

// space is address space for the input of one client, as much as that may ever become. The system gives memory
// for it page by page, as bytes come. So a large request takes as much memory as has come of it, whatever it announces.
// It is never copied into a larger buffer, which would take a loop many milliseconds.
type space struct {
	mem     []byte
	kept    int  // bytes of memory, as counted in the ledger
	gaveWay bool // counted in Server.givenUp
}

const spacePage = 4 << 10 // bytes; the smallest page of any system is counted

// spaceSize is how much memory a space takes that has size bytes: its pages, and those of the tables that the system finds
// them by. A page of these has a word for each page of a space, and the space need not begin with it.
func spaceSize(size int) int {
	pages := (size + spacePage - 1) / spacePage
	return pages*(spacePage+8) + spacePage + 512
}

// newSpace returns address space of size bytes, or nil if the system has none left.
func newSpace(size int) []byte {
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil
	}
	avoidHugePages(mem)
	return mem
}

// wantsSpace reports whether input of size bytes goes to a space. Some of a request that says that it will be large
// does as well. So it is not copied from one buffer into the next as it comes.
func (s *session) wantsSpace(size int) bool {
	return size > maxPooledBuffer || size >= readSize && s.inStart+s.need > maxPooledBuffer
}

// bufferInSpace is bufferInput for a session that wantsSpace.
func (s *session) bufferInSpace(buf []byte) bool {
	size := len(s.in) + len(buf)
	kept := spaceSize(size)
	if kept > s.kept && !s.mayBuffer(kept-s.kept) {
		return false
	}
	if s.space == nil {
		o := &s.loop.server.opts
		// A job may use what is in front while more comes.
		mem := newSpace(2*(o.MaxPending+s.proto.largest(o)) + readSize)
		if mem == nil {
			return false
		}
		s.space = mem
		in := append(mem[:0], s.in...)
		s.giveInput()
		s.in = in
	}
	if size > cap(s.in) {
		return false
	}
	s.in = append(s.in, buf...)
	s.countInput(max(kept, s.kept))
	return true
}

// dropSpace leaves the session's space to the end of the turn. Until then the request that was run, and the watchdog,
// may look at what is in it. It stays in the ledger as long.
func (s *session) dropSpace() {
	s.loop.spaces = append(s.loop.spaces, space{mem: s.space, kept: s.kept})
	s.loop.ledger.add(s.kept)
	s.in, s.space = nil, nil
}

// giveBackSpaces returns the memory of spaces that nobody uses any more, on another goroutine: that may take
// milliseconds.
func (l *loop) giveBackSpaces() {
	if len(l.spaces) == 0 {
		return
	}
	for i, sp := range l.spaces {
		l.spaces[i] = space{}
		l.ledger.add(-sp.kept)
		l.engine.Account(int64(sp.kept))
		l.background(func() {
			unix.Munmap(sp.mem)
			l.engine.Account(-int64(sp.kept))
			if sp.gaveWay {
				l.server.givenUp.Add(-int64(sp.kept))
			}
		})
	}
	l.spaces = l.spaces[:0]
	l.ledger.report()
}

// mayBuffer reports whether s may take so many bytes more for input.
func (s *session) mayBuffer(more int) bool {
	l, srv := s.loop, s.loop.server
	wants := int64(more) - srv.promised.Load()
	return l.ledger.left()+srv.givenUp.Load()-wants >= s.reserve() && srv.buffered.Load()+wants <= srv.opts.BufferLimit
}

// countInput counts that the input kept takes so many bytes.
func (s *session) countInput(kept int) {
	if grown := kept - s.kept; grown != 0 {
		s.loop.server.buffered.Add(int64(grown))
		s.loop.ledger.add(grown)
		s.kept = kept
		if class := sizeClass(kept); class != s.bySize.class {
			s.loop.bySize.move(s, class)
		}
	}
}

// reserve is how many bytes of the memory limit are not for the input of s. It is negative for a client that has read
// replies before. Such a client may exceed the limit by a sixteenth, so that others cannot take its place.
func (s *session) reserve() int64 {
	if s.taken > 0 {
		return -s.loop.engine.MemoryLimit() / 16
	}
	return 0
}

// giveInput gives a buffer back that is not a space, if there is one.
func (s *session) giveInput() {
	if s.inPool == nil {
		return
	}
	if cap(s.in) <= maxPooledBuffer {
		s.inPool.B = s.in
		s.loop.buffers.inputs.Put(s.inPool)
	}
	s.in, s.inPool = nil, nil
}
