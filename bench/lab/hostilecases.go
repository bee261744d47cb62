package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/codec/thrift"
)

// dialRaw connects without a client around the connection.
func dialRaw(s *server, protocol string) (*net.TCPConn, error) { return dialNarrow(s, protocol, 0) }

// dialNarrow is dialRaw with a receive buffer of that many bytes; 0: as the system has it.
func dialNarrow(s *server, protocol string, buffer int) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: patience}
	if buffer > 0 { // before it connects: TCP does not take back a window that it has offered
		d.Control = func(_, _ string, raw syscall.RawConn) (failed error) {
			err := raw.Control(func(fd uintptr) {
				failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)
			})
			return errors.Join(err, failed)
		}
	}
	conn, err := d.Dial("tcp", s.addr[protocol])
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(patience))
	return conn.(*net.TCPConn), nil
}

// grows checks that memory is less than limit bytes above what it was.
func grows(t *trial, s *server, before, limit int64, what string) error {
	now, err := resident(s.pid)
	if err == nil && now-before > limit {
		t.violate("%s: memory has grown by %d MiB, want %d at most", what, (now-before)>>20, limit>>20)
	}
	t.counts.trials.Add(1)
	return err
}

const (
	slowClients = 12
	bigItem     = 256 << 10 // bytes
	bigFetches  = 40        // that a slow reader asks for: 10 MiB in all
)

// slowReaders ask for far more than they read. What the server keeps for each is bounded, others
// are served, and when they read at last, everything comes.
func slowReaders(_ context.Context, t *trial, s *server) error {
	body := strings.Repeat("b", bigItem)
	put := fmt.Appendf(nil, "set big 0 0 %d\r\n%s\r\n", bigItem, body)
	if _, err := exchange(s, "memcache", put, 1<<20); err != nil {
		return err
	}
	before, err := resident(s.pid)
	if err != nil {
		return err
	}
	var conns []*net.TCPConn
	for range slowClients {
		c, err := dialNarrow(s, "memcache", 16<<10)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := io.WriteString(c, strings.Repeat("get big/peek\r\n", bigFetches)); err != nil {
			return err
		}
		conns = append(conns, c)
	}
	time.Sleep(300 * time.Millisecond) // it would go on, if it did
	expectService(t, s, "beside slow readers")
	// Up to 1 MiB and an item of replies, in buffers that have grown by doubling, and the
	// collector's share. Without a bound it is 10 MiB of replies.
	if err := grows(t, s, before, slowClients*(6<<20), "slow readers"); err != nil {
		return err
	}
	want := bigFetches * len(fmt.Sprintf("VALUE big 0 %d\r\n%s\r\nEND\r\n", bigItem, body))
	for _, c := range conns {
		c.SetDeadline(time.Now().Add(patience))
		if n, err := io.Copy(io.Discard, io.LimitReader(c, int64(want))); n < int64(want) {
			t.violate("a slow reader got %d bytes of %d: %v", n, want, err)
		}
	}
	return nil
}

// slowWriters send a request a byte at a time, and never its end. Others are served, and the
// writers are closed when client_timeout is over, however much they send.
func slowWriters(_ context.Context, t *trial, s *server) error {
	var writers sync.WaitGroup
	started := time.Now()
	heads := []struct{ protocol, head string }{
		{"memcache", "set slow 0 0 1000\r\n"},
		{"burrow", "PUT /v1.0/default/slow/m HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "},
		{"burrow", "PUT /v1.0/default/slow/m HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n"},
	}
	for i := range slowClients {
		slow := heads[i%len(heads)]
		c, err := dialRaw(s, slow.protocol)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := io.WriteString(c, slow.head); err != nil {
			return err
		}
		writers.Go(func() {
			for range 1000 {
				if _, err := io.WriteString(c, "x"); err != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	expectService(t, s, "beside slow writers")
	writers.Wait()
	if took := time.Since(started); took > 8*time.Second {
		t.violate("slow writers were not closed for %v", took)
	}
	t.counts.trials.Add(1)
	return nil
}

// announcedSizes are large items and frames that are announced and do not come: memory is taken for
// the bytes that arrive.
func announcedSizes(_ context.Context, t *trial, s *server) error {
	before, err := resident(s.pid)
	if err != nil {
		return err
	}
	for protocol, head := range map[string]string{
		"memcache": "set q 0 0 33554432\r\n",
		"thrift":   "\x01\xff\xff\xf0\x80\x01\x00\x01\x00\x00\x00\x03put\x00\x00\x00\x01",
		"text":     "put q:\n" + strings.Repeat("a", 1000),
		"burrow":   "PUT /v1.0/default/q/m HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 33554432\r\n\r\n",
	} {
		for range 200 {
			c, err := dialRaw(s, protocol)
			if err != nil {
				return err
			}
			defer c.Close()
			if _, err := io.WriteString(c, head+strings.Repeat("x", 1000)); err != nil {
				return err
			}
		}
	}
	expectService(t, s, "beside announced sizes")
	// 800 connections, with a buffer of 4 KiB each and what the collector leaves.
	return grows(t, s, before, 32<<20, "800 announced items of 32 MiB")
}

// halfClosed clients shut down their sending side at once, and read their replies to the last one.
func halfClosed(_ context.Context, t *trial, s *server) error {
	for n := range 50 {
		request := strings.Repeat("set half 0 0 1\r\nx\r\n", n) + "get half\r\nversion\r\n"
		reply, err := exchange(s, "memcache", []byte(request), len(request))
		if got := bytes.Count(reply, []byte("STORED\r\n")); err != nil || got != n ||
			!bytes.Contains(reply, []byte("VERSION")) {
			t.violate("half-closed behind %d puts: got %d replies, %.100q, %v", n, got, reply, err)
		}
		if _, err := exchange(s, "memcache", []byte("delete half\r\n"), 64); err != nil {
			return err
		}
		t.counts.trials.Add(1)
	}
	return nil
}

// resetStates are requests behind which a connection is reset: it is then in every state that it
// can be. A connection of memcache, unless the name ends otherwise.
func resetStates() map[string]string {
	var client thrift.Client
	frame := string(client.AppendPut(nil, 1, []byte("q"), 0, []byte("item")))
	wait := thrift.GetOptions{MaxItems: 9, WaitMillis: 60_000, AutoAbortMillis: 60_000}
	return map[string]string{
		"in the size of a frame, thrift": frame[:3],
		"in a frame, thrift":             frame[:len(frame)-3],
		"sync under way, thrift":         frame,
		"collecting items, thrift":       string(client.AppendGet(nil, 1, []byte("nothing"), wait)),
		"in a large put, thrift": string(client.AppendPut(nil, 1, []byte("q"), 0,
			slices.Repeat([][]byte{[]byte("item")}, 5000)...)),
		"in a line, text":   "put q",
		"in a head, burrow": "PUT /v1.0/default/q/m HTTP/1.1\r\nHost: 127.0.0.1\r\n",
		"in a chunk, burrow": "PUT /v1.0/default/q/m HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"5\r\nhello\r\n100\r\nmore",
		"waiting, burrow":          httpRequest("DELETE", "/v1.0/default/nothing?wait=60", ""),
		"reading a list, burrow":   strings.Repeat(httpRequest("GET", "/v1.0/default/large", ""), bigFetches),
		"sync under way, burrow":   httpRequest("PUT", "/v1.0/default/q/m", "item"),
		"waiting and more, burrow": httpRequest("GET", "/v1.0/default/nothing?wait=60", "") + "PUT /v1.0/defau",
		"between items, text":      "put q:\na\nb\n",
		"waiting, text":            "get nothing 60000\n",
		"waiting and more, text":   "peek nothing 60000\nput q:\nx\n\nget nothi",
		"nothing sent":             "",
		"in a line":                "set q 0 0 1",
		"in a body":                "set q 0 0 100\r\nabc",
		"in a refused body":        "set q 0 0 99999999\r\nabc",
		"waiting":                  "get nothing/t=60000\r\n",
		"waiting, with more":       "get nothing/t=60000\r\nget nothing\r\nset q 0 0 5\r\nab",
		"in a monitor":             "monitor nothing 60 1000\r\n",
		"with an open read":        "get held/open\r\n",
		"replies unread":           strings.Repeat("get large/peek\r\n", 40),
		"quitting":                 "quit\r\n",
		"sync under way":           "set synced 0 0 1\r\nx\r\n",
	}
}

// resets are connections that are reset in every state. None of them leaves anything behind: no
// connection, no descriptor, no waiter, and the item it held is back.
func resets(_ context.Context, t *trial, s *server) error {
	setup := fmt.Sprintf("set held 0 0 4\r\nheld\r\nset large 0 0 %d\r\n%s\r\n", bigItem,
		strings.Repeat("l", bigItem))
	if _, err := exchange(s, "memcache", []byte(setup), 1<<20); err != nil {
		return err
	}
	before, err := descriptorsOf(s.pid)
	if err != nil {
		return err
	}
	for name, request := range resetStates() {
		_, protocol, _ := strings.Cut(name, ", ")
		if s.addr[protocol] == "" {
			protocol = "memcache"
		}
		for range 20 {
			c, err := dialRaw(s, protocol)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(c, request); err != nil {
				return err
			}
			if strings.HasPrefix(name, "with") { // it has the item now
				if line, err := bufio.NewReader(c).ReadString('\n'); !strings.HasPrefix(line, "VALUE") {
					t.violate("reset %s: got %q, %v", name, line, err)
				}
			}
			c.SetLinger(0)
			c.Close()
			if strings.HasPrefix(name, "with") {
				expectBack(t, s)
			}
		}
		expectService(t, s, "behind resets "+name)
		t.counts.trials.Add(1)
	}
	return awaitClosed(t, s, before)
}

// expectBack checks that the open item of a connection is back after a reset.
func expectBack(t *trial, s *server) {
	reply, err := exchangeOpen(s, "get held/t=5000/open\r\nget held/abort\r\n", "END\r\nEND\r\n")
	if err != nil || !strings.Contains(reply, "held\r\nEND") {
		t.violate("the item of a connection that was reset: got %q, %v", reply, err)
	}
}

// exchangeOpen sends a request and reads until the reply ends with end: for requests that wait,
// which a half-close would cut short.
func exchangeOpen(s *server, request, end string) (string, error) {
	c, err := dialRaw(s, "memcache")
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		return "", err
	}
	var got []byte
	for !strings.HasSuffix(string(got), end) {
		more, err := readSome(c)
		got = append(got, more...)
		if err != nil {
			return string(got), err
		}
	}
	return string(got), nil
}

// awaitClosed waits until the server has as many descriptors as before, and one connection: the one
// that asks.
func awaitClosed(t *trial, s *server, before int) error {
	var stats string
	for range patience / (10 * time.Millisecond) {
		time.Sleep(10 * time.Millisecond)
		now, err := descriptorsOf(s.pid)
		if err != nil {
			return err
		}
		if stats, err = exchangeOpen(s, "stats\r\n", "END\r\n"); err != nil {
			return err
		}
		if now <= before+1 && strings.Contains(stats, "STAT curr_connections 1\r\n") {
			return nil
		}
	}
	t.violate("connections are left behind: %.400q", stats)
	return nil
}

// manyConnects are connections one after the other.
func manyConnects(ctx context.Context, t *trial, s *server) error {
	n, limit := 2000, int64(8<<20) // over 2 KiB of garbage each, which nobody collects before there is 4 MiB of it
	if t.cycles > 1 {
		n, limit = 100_000, maxGrowth
	}
	before, err := descriptorsOf(s.pid)
	if err != nil {
		return err
	}
	memory := int64(0)
	for i := range n {
		c, err := dialRaw(s, "memcache")
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		io.WriteString(c, "version\r\n")
		reply, err := readSome(c)
		c.SetLinger(0) // leave no port behind for a minute
		c.Close()
		if err != nil || !bytes.HasPrefix(reply, []byte("VERSION")) {
			t.violate("connection %d got %q, %v", i, reply, err)
			return nil
		}
		if i == n/10 {
			if memory, err = resident(s.pid); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := grows(t, s, memory, limit, fmt.Sprint(n, " connections in a row")); err != nil {
		return err
	}
	return awaitClosed(t, s, before)
}

// storms are hundreds of connections at the same time, with a limit of 64. Those over the limit
// get an error, and when they have gone the server serves everybody.
func storms(_ context.Context, t *trial, s *server) error {
	before, err := descriptorsOf(s.pid)
	if err != nil {
		return err
	}
	for range 5 {
		var crowd sync.WaitGroup
		for range 400 {
			crowd.Go(func() {
				c, err := dialRaw(s, "memcache")
				if err != nil {
					t.violate("storm: %v", err)
					return
				}
				defer c.Close()
				io.WriteString(c, "version\r\n")
				reply, _ := readSome(c) // a refusal may be overtaken by a reset
				if len(reply) > 0 && !bytes.HasPrefix(reply, []byte("VERSION")) &&
					!bytes.HasPrefix(reply, []byte("SERVER_ERROR too many open connections")) {
					t.violate("storm: got %q", reply)
				}
			})
		}
		crowd.Wait()
		if err := awaitClosed(t, s, before); err != nil {
			return err
		}
		t.counts.trials.Add(1)
	}
	return nil
}

const (
	// certificatesHere stands in a configuration for the directory with cert.pem and key.pem.
	certificatesHere = "CERTIFICATES"

	securedPort = "[[listener]]\nprotocol = \"memcache\"\naddress = \"127.0.0.1:0\"\ntls = \"own\"\n" +
		"[tls.own]\ncertificate = \"" + certificatesHere + "/cert.pem\"\nkey = \"" + certificatesHere + "/key.pem\"\n"

	openHandshakes = 1024      // that a server has at once
	handshakeKept  = 64 << 10  // bytes, of each
	handshakeSlack = 48 << 20  // bytes, for all: stacks, sockets, the collector's share
	handshakeFlood = 1024 + 76 // handshakes
	handshakeEnds  = 10 * time.Second
)

// halfOpenHandshakes begins handshakes in every way, more than the server keeps. It keeps no more of them than it says,
// nor more of each; the oldest make room. Beside them others are served, in the clear and over TLS.
func halfOpenHandshakes(ctx context.Context, t *trial, s *server) error {
	addr := ""
	for i := 0; addr == ""; i++ {
		line, err := s.next(i)
		if err != nil {
			return err
		}
		if line.message() == "listening" && line["tls"] == true {
			addr, _ = line["address"].(string)
		}
	}
	hello, err := clientHello()
	if err != nil {
		return err
	}
	descriptors, err := descriptorsOf(s.pid)
	if err != nil {
		return err
	}
	for _, begin := range []struct{ what, sent string }{
		{"nothing", ""},
		{"three bytes", string(hello[:3])},
		{"all of a ClientHello but a byte", string(hello[:len(hello)-1])},
		{"a whole ClientHello", string(hello)},
		{"a ClientHello twice", string(hello) + string(hello)},
		{"a ClientHello and garbage", string(hello) + strings.Repeat("\x17\x03\x03\x00\x20garbage", 100)},
		{"a message that never ends", "\x16\x03\x01\x40\x00\x01\x00\xff\xff" + strings.Repeat("x", 16<<10-4)},
		{"empty records", strings.Repeat("\x16\x03\x03\x00\x00", 20)},
		{"no TLS", "get work\r\n"},
	} {
		memory, err := resident(s.pid)
		if err != nil {
			return err
		}
		if err := beginHandshakes(t, s, addr, "handshakes of "+begin.what, []byte(begin.sent), memory); err != nil {
			return fmt.Errorf("%s: %w", begin.what, err)
		}
		if err := awaitClosed(t, s, descriptors); err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	return nil
}

// beginHandshakes opens a flood of connections that begin in one way, and checks what others, and the oldest, get.
func beginHandshakes(t *trial, s *server, addr, what string, sent []byte, memory int64) error {
	conns := make([]*net.TCPConn, 0, handshakeFlood)
	defer func() {
		for _, c := range conns {
			c.SetLinger(0)
			c.Close()
		}
	}()
	first := time.Now()
	for range handshakeFlood {
		c, err := net.DialTimeout("tcp", addr, patience)
		if err != nil {
			return err
		}
		conns = append(conns, c.(*net.TCPConn))
		c.SetDeadline(time.Now().Add(patience))
		c.Write(sent) // fails if the server has refused it by now
	}
	// The oldest would end by themselves when their time is over.
	began := time.Now()
	for _, c := range conns[:handshakeFlood-openHandshakes] {
		c.SetReadDeadline(began.Add(handshakeEnds / 2))
		var late net.Error
		_, err := io.Copy(io.Discard, c)
		if errors.As(err, &late) && late.Timeout() && began.Sub(first) < handshakeEnds/2 {
			t.violate("%s: the oldest have not made room", what)
			return nil
		}
	}
	expectService(t, s, "beside "+what)
	expectSecured(t, addr, what)
	return grows(t, s, memory, openHandshakes*handshakeKept+handshakeSlack, what)
}

// expectSecured checks that a new client over TLS is served.
func expectSecured(t *trial, addr, beside string) {
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.violate("beside %s a new client over TLS is not served: %v", beside, err)
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	const want = "STORED\r\nVALUE fresh 0 1\r\nx\r\nEND\r\n"
	got := make([]byte, len(want))
	io.WriteString(c, "set fresh 0 0 1\r\nx\r\nget fresh\r\n")
	if n, err := io.ReadFull(bufio.NewReader(c), got); string(got) != want {
		t.violate("beside %s a new client over TLS got %q, %v", beside, got[:n], err)
	}
}
