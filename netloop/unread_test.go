package netloop

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/engine"
)

// A poller reports once. These tests have connections with something that one read does not take, which
// nobody reports again.

// TestUnreadIsRead has more come at once than one read takes, just as much, and a byte less. All of it is run, though
// nothing more comes.
//
// Its control is a readable that notes nothing as unread.
func TestUnreadIsRead(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		for _, size := range []int{readSize - 1, readSize, readSize + 1, 2 * readSize, 3*readSize - 1} {
			lt := newBulkTest(t, eventLoop, unsynced(), 2)
			if err := unix.SetsockoptInt(lt.peers[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<20); err != nil {
				t.Fatal(err)
			}
			rest := len("set q0 0 0 \r\n\r\n") + len(fmt.Sprint(size-20)) // of the request, beside its item
			lt.put(0, 1, size-rest)
			put := int64(0)
			for range (size+readSize-1)/readSize + 1 {
				put += lt.turn(0)[0]
			}
			if put != 1 || len(lt.bulk.conns) > 0 {
				t.Errorf("%d bytes: %d items were put, %d are in the bulk; want 1, 0", size, put, len(lt.bulk.conns))
			}
		}
	})
}

// TestEndBehindInput has the end come along with what was sent before it, with one event. The replies leave, and the
// connection ends, though nothing more comes.
//
// Its control is a happened that does not set ended.
func TestEndBehindInput(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		for _, how := range []int{unix.SHUT_WR, unix.SHUT_RDWR} {
			lt := newBulkTest(t, eventLoop, unsynced(), 2)
			lt.put(0, 3, 1)
			if err := unix.Shutdown(lt.peers[0], how); err != nil {
				t.Fatal(err)
			}
			lt.want("with its end", lt.turn(0), 3, 0)
			if how == unix.SHUT_WR {
				lt.wantReplies(0, 3)
			}
			lt.turn(0)
			if lt.conns[lt.fds[0]] != nil || len(lt.bulk.conns) > 0 {
				t.Errorf("the connection is open after its end; %d in the bulk", len(lt.bulk.conns))
			}
		}
	})
}

// TestEndOfOther has a connection take the descriptor of one that has ended, of which an event is left
// in the batch: it stays open.
func TestEndOfOther(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		lt := newBulkTest(t, eventLoop, unsynced(), 2)
		lt.put(1, 1, 1)
		lt.happens = func() { lt.driver.happened(lt.fds[0], true) } // nothing of it is there to be read
		lt.want("a false end", lt.turn(0), 0, 1)
		lt.put(0, 1, 1)
		lt.want("after it", lt.turn(0), 1, 0)
		lt.want("after it", lt.turn(0), 0, 0)
		if c := lt.conns[lt.fds[0]]; c == nil || c.ended || len(lt.bulk.conns) > 0 {
			t.Errorf("the connection is %+v, %d in the bulk; want it open, none", c, len(lt.bulk.conns))
		}
	})
}

// TestPiecesOfAnySize has clients send requests cut anywhere, many at a time. Beside them readers wait, and others
// come and go. All end by shutting down their sending side, and each gets every reply.
func TestPiecesOfAnySize(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		for _, queue := range []string{"unsynced", "synced"} {
			o := unsynced()
			if queue == "synced" {
				o.Sync = engine.SyncAlways
			}
			s := startServer(t, eventLoop, Options{Loops: 2}, o)
			waiter := dial(t, s)
			waiter.send("get nothing/t=60000\r\n")
			var all sync.WaitGroup
			for client := range uint64(8) {
				all.Go(func() {
					r := rand.New(rand.NewPCG(seed, client))
					for range 4 {
						if err := converse(s, r, int(client)); err != nil {
							t.Errorf("client %d, seed %d, %s: %v", client, seed, queue, err)
							return
						}
					}
				})
			}
			all.Wait()
		}
	})
}

// converse puts items and takes them back on a connection of its own, in pieces of random sizes.
func converse(s *Server, r *rand.Rand, client int) error {
	nc, err := net.Dial("tcp", s.MemcacheAddr().String())
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(testDeadline))
	var send, want bytes.Buffer
	for range 1 + r.IntN(60) {
		body := strings.Repeat("x", r.IntN(1<<r.IntN(18)))
		fmt.Fprintf(&send, "set c%d 0 0 %d\r\n%s\r\nget c%d\r\n", client, len(body), body, client)
		fmt.Fprintf(&want, "STORED\r\nVALUE c%d 0 %d\r\n%s\r\nEND\r\n", client, len(body), body)
	}
	go func() {
		for send.Len() > 0 {
			if _, err := nc.Write(send.Next(1 + r.IntN(1<<r.IntN(19)))); err != nil {
				return
			}
		}
		nc.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(nc)
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		return fmt.Errorf("%d bytes of replies, %w, want %d", len(got), err, want.Len())
	}
	return nil
}
