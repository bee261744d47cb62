package client

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/client/internal/wire"
	"github.com/kestrelmq/kestrel/codec/memcache"
)

const (
	// laneRoom is how many bytes of puts gather on a lane before callers wait for room.
	laneRoom = 512 << 10
	// laneKeep is the largest buffer that a lane keeps, in bytes.
	laneKeep = 2 << 20
	// stallAfter is how long a server may owe replies before puts prefer others.
	stallAfter = 100 * time.Millisecond
)

// lane puts items on one server, over one connection. Callers gather their puts in it; its
// goroutine writes all that has gathered at once, reads the replies, and hands them back. So many
// callers share one write, one read, and one sync of the server's disk.
//
//	up    -> down     the connection failed, or the server refused for itself
//	down  -> up       the goroutine has connected again, after a back-off or for the next put
//	any   -> leaving  the server has left the write set
//
// A lane that is leaving takes no more puts and ends when those that it has are answered.
type lane struct {
	client *Client
	server string
	kick   chan struct{} // holds a token when there is something to do

	mu sync.Mutex
	// Guarded by mu.
	out     []byte
	calls   []*call       // that out holds, in order
	room    chan struct{} // closed when out has been taken, or has shrunk
	down    bool
	leaving bool
	owed    time.Time // when the round was begun that is under way; zero if there is none

	// Owned by the goroutine.
	conn    *wire.Conn
	release func() bool // lets conn outlive the client
	fails   int         // in a row
	spare   []byte
	served  []*call
}

// call is some puts of one caller, which follow each other on a lane.
type call struct {
	n    int           // items
	size int           // bytes in lane.out; guarded by lane.mu
	done chan struct{} // closed when all is known
	errs []error       // nil if all items are stored; else one for each
}

// fail notes why the i-th item is not stored, or not known to be.
func (k *call) fail(i int, err error) {
	if k.errs == nil {
		k.errs = make([]error, k.n)
	}
	k.errs[i] = err
}

// newLane starts a lane; client.mu is held.
func newLane(c *Client, server string) *lane {
	l := &lane{client: c, server: server, kick: make(chan struct{}, 1), room: make(chan struct{})}
	c.running.Go(l.run)
	return l
}

// wake has the goroutine look.
func (l *lane) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// leave ends the lane when what has gathered is done.
func (l *lane) leave() {
	l.mu.Lock()
	l.leaving = true
	l.mu.Unlock()
	l.wake()
}

// condition says how good a choice a lane is.
type condition int

const (
	prompt condition = iota // or not tried yet
	slow                    // the server owes replies for longer than stallAfter
	fallen                  // it failed, and has not come back
	absent                  // it has left the write set
)

// condition returns the lane's, and how many calls have gathered.
func (l *lane) condition(now time.Time) (condition, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.leaving:
		return absent, 0
	case l.down:
		return fallen, len(l.calls)
	case !l.owed.IsZero() && now.Sub(l.owed) > stallAfter:
		return slow, len(l.calls)
	}
	return prompt, len(l.calls)
}

// add gathers puts: encode appends them to what it is given. It returns a channel to wait on if
// there is no room, and false if the lane takes no more.
func (l *lane) add(k *call, encode func(dst []byte) []byte) (full <-chan struct{}, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leaving {
		return nil, false
	}
	if len(l.out) >= laneRoom {
		return l.room, true
	}
	before := len(l.out)
	l.out = encode(l.out)
	k.size = len(l.out) - before
	l.calls = append(l.calls, k)
	l.wake()
	return nil, true
}

// withdraw takes a call out again that has gathered. It returns false if the call is on its way, or
// done.
func (l *lane) withdraw(k *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := 0
	for i, other := range l.calls {
		if other == k {
			l.out = slices.Delete(l.out, at, at+k.size)
			l.calls = slices.Delete(l.calls, i, i+1)
			l.makeRoom()
			return true
		}
		at += other.size
	}
	return false
}

// take returns what has gathered; the lane then owes replies. It returns none, and whether the lane
// is leaving, if there is nothing.
func (l *lane) take() (out []byte, calls []*call, leaving bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) == 0 {
		return nil, nil, l.leaving
	}
	out, calls = l.out, l.calls
	l.out, l.calls = l.spare[:0], l.served[:0]
	l.spare, l.served = nil, nil
	l.makeRoom()
	l.owed = time.Now()
	return out, calls, false
}

// makeRoom wakes those who wait for room; mu is held.
func (l *lane) makeRoom() {
	close(l.room)
	l.room = make(chan struct{})
}

// finish ends the calls that were taken. It keeps the buffers, to use them again.
func (l *lane) finish(out []byte, calls []*call) {
	for i, k := range calls {
		close(k.done)
		calls[i] = nil
	}
	if cap(out) <= laneKeep {
		l.spare = out[:0]
	}
	l.served = calls[:0]
	l.mu.Lock()
	l.owed = time.Time{}
	l.mu.Unlock()
}

// fell notes that the server failed, and ends the connection.
func (l *lane) fell(err error) {
	l.hangUp()
	l.fails++
	l.mu.Lock()
	before := l.down
	l.down = true
	l.mu.Unlock()
	if !before && l.client.ctx.Err() == nil {
		l.client.opts.Logger.Warn("a server takes no puts", "server", l.server, "error", err)
	}
}

// rose notes that the server can be reached.
func (l *lane) rose() {
	l.mu.Lock()
	before := l.down
	l.down = false
	l.mu.Unlock()
	if before {
		l.client.opts.Logger.Info("a server can be reached again", "server", l.server)
	}
}

// run is the lane's goroutine.
func (l *lane) run() {
	retry := time.NewTimer(0)
	retry.Stop()
	defer retry.Stop()
	defer l.hangUp()
	for {
		if l.fails > 0 && l.conn == nil {
			retry.Reset(l.client.opts.Backoff.After(l.fails))
		}
		select {
		case <-l.kick:
		case <-retry.C: // look whether the server is back
			l.connect()
		case <-l.client.ctx.Done():
			l.leave()
			out, calls, _ := l.take()
			l.refuse(out, calls, ErrClosed)
			return
		}
		retry.Stop()
		for {
			out, calls, leaving := l.take()
			if leaving {
				return
			}
			if calls == nil {
				break
			}
			l.serve(out, calls)
		}
	}
}

// serve does what was taken: in a round, or if there is no connection not at all.
func (l *lane) serve(out []byte, calls []*call) {
	if l.conn != nil && !l.conn.Quiet() {
		l.hangUp()
	}
	if err := l.connect(); err != nil {
		l.refuse(out, calls, &notSent{err: l.client.plain(err)})
		return
	}
	err := l.round(out, calls)
	if err != nil {
		l.fell(err)
	}
	l.finish(out, calls)
	if err == nil || !l.client.others() {
		return
	}
	if out, calls, _ := l.take(); calls != nil { // what has gathered meanwhile
		l.refuse(out, calls, &notSent{err: l.client.plain(err)})
	}
}

// refuse ends what was taken, and not sent, with err.
func (l *lane) refuse(out []byte, calls []*call, err error) {
	for _, k := range calls {
		for i := range k.n {
			k.fail(i, err)
		}
	}
	l.finish(out, calls)
}

// connect makes a connection, if there is none.
func (l *lane) connect() error {
	if l.conn != nil {
		return nil
	}
	conn, err := l.client.dialer.Dial(l.client.ctx, l.server)
	if err == nil {
		l.conn = conn
		l.release = conn.Guard(l.client.ctx)
		if l.fails > 0 {
			err = l.probe()
		}
	}
	if err != nil {
		l.fell(err)
		return err
	}
	l.rose()
	return nil
}

// probe asks a server that has failed for its version: a process that is stopped still has
// connections made.
func (l *lane) probe() error {
	deadline := time.Now().Add(l.client.opts.DialTimeout)
	l.conn.ReadUntil(deadline)
	var reply memcache.Reply
	err := l.conn.Write(memcache.AppendCommand(nil, memcache.OpVersion, nil), deadline)
	if err == nil {
		err = l.conn.Read(&reply)
	}
	if err == nil && reply.Kind != memcache.KindVersion {
		err = refusal(&reply)
	}
	return err
}

// hangUp ends the connection, if there is one.
func (l *lane) hangUp() {
	if l.conn != nil {
		l.release()
		l.conn.Close()
		l.conn = nil
	}
}

// round writes puts and reads their replies. An error ends the connection.
func (l *lane) round(out []byte, calls []*call) error {
	deadline := time.Now().Add(l.client.opts.ReplyTimeout)
	l.conn.ReadUntil(deadline)
	writeErr := l.conn.Write(out, deadline) // replies, and why the rest was not taken, may be there to read
	var reply memcache.Reply
	var end error   // why no more replies come
	var known error // what that means for puts without a reply
	var last error  // the refusal read last
	for _, k := range calls {
		for i := 0; i < k.n; i++ {
			if end == nil {
				if n := l.conn.Stored(k.n - i); n > 0 {
					last = nil
					i += n - 1
					continue
				}
				if err := l.conn.Read(&reply); err != nil {
					end, known = err, l.unanswered(err, writeErr, last)
				}
			}
			if end != nil {
				k.fail(i, known)
				continue
			}
			switch reply.Kind {
			case memcache.KindStored:
				last = nil
			case memcache.KindNotStored:
				k.fail(i, ErrNotStored)
			default:
				last = refusal(&reply)
				k.fail(i, last)
				if errors.Is(last, ErrProtocol) {
					end, known = last, unknown(last)
				}
			}
		}
	}
	if end == nil {
		end = writeErr
	}
	if end == nil && closing(last) {
		end = last
	}
	if end == nil {
		l.fails = 0
	}
	return end
}

// unanswered says what the end of the replies means for puts that have none. A server that refuses
// for its status closes the connection, and runs no later request: those puts are for other servers. If it
// closes before it has read them all, its machine resets the connection.
func (l *lane) unanswered(read, write, last error) error {
	if closing(last) {
		return last
	}
	if write != nil && !wire.TimedOut(read) {
		read = write
	}
	return unknown(l.client.plain(read))
}
