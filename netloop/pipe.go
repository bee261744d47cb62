package netloop

import (
	"context"
	"io"
	"sync"
)

// Pipes is a Server whose loops run on connections in memory instead of sockets. Simulations need it, because they
// must know everything that waits, and its time. It makes one system call, for the drainer that it does not use.
//
// It stands in for driver: a goroutine for each loop hands the sessions what clients send, and ends
// every turn with a tick. Pacing and the line of busy connections are the driver's, and
// absent.
type Pipes struct {
	*Server
	drivers []*pipeDriver
	dialed  int
}

// NewPipes makes a server without ports. It has no use for the addresses in opts. With handOff its
// loops leave syncs to a goroutine, as where there are several processors.
func NewPipes(opts Options, handOff bool) (*Pipes, error) {
	opts.Memcache, opts.Text, opts.Thrift, opts.Burrow, opts.Listeners = "", "", "", "", nil
	opts.Loops = max(opts.Loops, 1)
	s, err := New(opts)
	if err != nil {
		return nil, err
	}
	s.inline.allowed = !handOff
	p := &Pipes{Server: s}
	for _, d := range s.loops {
		pd := &pipeDriver{loop: d.loop, server: s, kick: make(chan struct{}, 1), conns: make(map[*PipeConn]bool)}
		d.wake = pd.wake
		p.drivers = append(p.drivers, pd)
	}
	return p, nil
}

// Start has the loops serve.
func (p *Pipes) Start() {
	for _, d := range p.drivers {
		p.running.Go(d.run)
	}
	p.workers.Go(func() { p.syncer.run(p.stopped) })
	p.workers.Go(func() { p.writer.run(p.stopped) })
	p.status.publishFirst()
}

// Shutdown is that of Server.
func (p *Pipes) Shutdown(ctx context.Context) {
	p.stopOnce.Do(func() {
		close(p.stopping)
		p.end()
		p.status.goDown()
		for _, d := range p.drivers {
			d.do(d.drain)
		}
		p.Server.drain(ctx)
		for _, d := range p.drivers {
			d.do(d.stop)
		}
		p.running.Wait()
		p.jobs.Wait()
		close(p.stopped)
		p.drainer.close()
		p.workers.Wait()
		for _, d := range p.drivers {
			d.alarm.stop()
		}
	})
}

// Protocols that Dial knows.
const (
	PipeMemcache = "memcache"
	PipeText     = "text"
	PipeThrift   = "thrift"
	PipeBurrow   = "burrow"
)

// Dial opens a connection on which a protocol is spoken. The server holds at most room bytes that the
// client has not read; the rest is unsent, as behind a full socket.
func (p *Pipes) Dial(protocolName string, room int) *PipeConn {
	d := p.drivers[p.dialed%len(p.drivers)]
	p.dialed++
	c := &PipeConn{driver: d, room: room}
	c.readable.L = &c.mu
	switch c.session.local = true; protocolName {
	case PipeText:
		c.session.proto = textProtocol{}
	case PipeThrift:
		c.session.proto = thriftProtocol{}
	case PipeBurrow:
		c.session.proto = burrowProtocol{}
	default:
		c.session.proto = memcacheProtocol{}
	}
	c.session.sink, c.session.loop = c, d.loop
	d.do(func() {
		if d.stopped {
			c.cut()
			return
		}
		count, ok := p.enter()
		if !ok {
			c.send(c.session.proto.tooMany())
			c.cut()
			return
		}
		p.limit(&c.session, count)
		d.conns[c] = true
		d.loop.open(&c.session)
	})
	return c
}

// pipeDriver runs a loop. Its fields belong to the loop's goroutine, except where it says otherwise.
type pipeDriver struct {
	*loop
	server  *Server
	conns   map[*PipeConn]bool
	stopped bool
	kick    chan struct{} // capacity 1

	mu    sync.Mutex
	tasks []func() // in order; guarded by mu
	ended bool     // run has returned; guarded by mu
}

func (d *pipeDriver) wake() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// do has the loop's goroutine call f in its next turn, or calls it if there will be none. Any goroutine
// may call it.
func (d *pipeDriver) do(f func()) {
	d.mu.Lock()
	if d.ended {
		defer d.mu.Unlock()
		f()
		return
	}
	d.tasks = append(d.tasks, f)
	d.mu.Unlock()
	d.wake()
}

func (d *pipeDriver) run() {
	for !d.stopped {
		<-d.kick
		d.begin()
		for _, task := range d.takeTasks(false) {
			task()
		}
		if d.tick(); d.unfinished() {
			d.ring()
		}
	}
	for _, task := range d.takeTasks(true) {
		task()
	}
}

// takeTasks returns what is to be done, for the last time if the loop ends.
func (d *pipeDriver) takeTasks(last bool) []func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	tasks := d.tasks
	d.tasks, d.ended = nil, last
	return tasks
}

func (d *pipeDriver) receive(c *PipeConn, p []byte) {
	defer d.rescue(&c.session)
	c.session.receive(p)
}

func (d *pipeDriver) end(c *PipeConn, canRead bool) {
	if !d.conns[c] {
		return
	}
	delete(d.conns, c)
	d.endSession(&c.session, canRead)
	c.cut()
	d.server.connections.Add(-1)
}

func (d *pipeDriver) stop() {
	for c := range d.conns {
		d.end(c, true)
	}
	d.stopped = true
}

func (d *pipeDriver) drain() {
	d.draining = true
	for s := d.sessions.head; s != nil; {
		next := s.newerIdle
		if s.state == waiting && s.wait.kind != waitJob {
			s.deadlinePassed()
		}
		s = next
	}
}

// PipeConn is a connection in memory. Write, Read, CloseWrite and Close are the client's side. Any goroutine may call
// them, but only one at a time Read. The rest is the session's sink.
type PipeConn struct {
	session session
	driver  *pipeDriver
	room    int

	mu       sync.Mutex
	readable sync.Cond
	unread   []byte // the server's bytes that the client has not read; guarded by mu
	over     bool   // the server sends no more; guarded by mu
	deaf     bool   // the client reads no more; guarded by mu
	waiting  bool   // the session has bytes that found no room; guarded by mu

	unsent []byte // what found no room; owned by the loop
}

var _ sink = (*PipeConn)(nil)

// Write sends p, which the connection keeps.
func (c *PipeConn) Write(p []byte) {
	c.driver.do(func() {
		if c.driver.conns[c] {
			c.driver.receive(c, p)
		}
	})
}

// Read reads what has come, and waits until there is anything. It returns io.EOF at the end.
func (c *PipeConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.unread) == 0 && !c.over {
		c.readable.Wait()
	}
	if len(c.unread) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.unread)
	c.unread = c.unread[:copy(c.unread, c.unread[n:])]
	if c.waiting {
		c.waiting = false
		c.driver.post(&c.session, writable)
	}
	return n, nil
}

// Kept returns how many bytes of replies the server keeps for the client, besides those that it has room for.
func (c *PipeConn) Kept() int {
	kept := make(chan int, 1)
	c.driver.do(func() { kept <- len(c.session.out) + len(c.unsent) })
	return <-kept
}

// CloseWrite says that the client sends no more.
func (c *PipeConn) CloseWrite() { c.driver.do(func() { c.driver.end(c, true) }) }

// Close resets the connection: what the server has not sent is lost.
func (c *PipeConn) Close() {
	c.mu.Lock()
	c.deaf = true
	c.mu.Unlock()
	c.driver.do(func() { c.driver.end(c, false) })
}

// cut ends what the client reads.
func (c *PipeConn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if !c.deaf {
		c.unread = append(c.unread, c.unsent...) // as the drainer would do it
	}
	c.unsent = nil
	c.readable.Broadcast()
}

// send implements sink.
func (c *PipeConn) send(p []byte) {
	c.unsent = append(c.unsent, p...)
	c.sendUnsent()
}

// listen implements sink. What the peer sends meanwhile stays with the session.
func (c *PipeConn) listen(bool) {}

// sendUnsent implements sink.
func (c *PipeConn) sendUnsent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.deaf {
		c.unsent = nil
		return
	}
	n := min(len(c.unsent), max(c.room-len(c.unread), 0))
	if n > 0 {
		c.unread = append(c.unread, c.unsent[:n]...)
		c.unsent = c.unsent[:copy(c.unsent, c.unsent[n:])]
		c.readable.Broadcast()
	}
	c.waiting = len(c.unsent) > 0
}

// unsentBytes implements sink.
func (c *PipeConn) unsentBytes() int { return len(c.unsent) }

// memory implements sink.
func (c *PipeConn) memory() int { return cap(c.unsent) }

// close implements sink.
func (c *PipeConn) close() { c.driver.end(c, true) }

// peer implements sink.
func (c *PipeConn) peer() string { return "pipe" }
