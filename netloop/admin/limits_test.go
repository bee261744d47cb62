package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/netloop/ports"
)

func (tt *tester) dial() net.Conn {
	tt.t.Helper()
	c, err := net.Dial("tcp", tt.admin.Addr().String())
	if err != nil {
		tt.t.Fatal(err)
	}
	tt.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(testDeadline))
	return c
}

// TestSlowClients tests that one who does not end a request, or does not send the body that it
// announced, is cut off.
func TestSlowClients(t *testing.T) {
	tt := startUnready(t, Options{requestTime: 20 * time.Millisecond})
	for _, request := range []string{
		"", "GET /ping.txt HTTP/1.1\r\n", "GET /ping.txt HTTP/1.1\r\nHost: localhost\r\nX-A: ",
		"POST /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nto=",
	} {
		c := tt.dial()
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%q: %v, want the end", request, err)
		}
	}
	tt.expect("/ping.txt", 200, "pong\n")
}

// slowReader asks for an answer and reads no more than its beginning.
func (tt *tester) slowReader(path string) net.Conn {
	c := tt.dial()
	c.(*net.TCPConn).SetReadBuffer(4096)
	io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
	c.Read(make([]byte, 1)) // the answer has begun, or the client was cut off already
	return c
}

// manyQueues makes queues whose statistics take some 14 MB, which is more than sockets keep.
func (tt *tester) manyQueues() {
	for i := range 2000 {
		tt.put(strings.Repeat("x", 240)+fmt.Sprint(i), "x")
	}
}

// TestSlowReader tests that those who do not take an answer hold up nobody meanwhile, and that their answers count as
// memory until they end.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	tt := start(t, Options{answerTime: 10 * testDeadline}, netloop.Options{}, defaults())
	tt.manyQueues()
	before := tt.engine.MemoryLeft()
	var slow []net.Conn
	for range maxCostly + 1 {
		slow = append(slow, tt.slowReader("/stats.json"))
	}
	if taken := before - tt.engine.MemoryLeft(); taken < 1<<20 {
		t.Errorf("%d answers that nobody reads count as %d bytes", len(slow), taken)
	}
	tt.expect("/readyz", 200, "ready\nphase: serving\nstatus: Up\n")
	if got := tt.get("/stats.txt"); got.code != 200 {
		t.Errorf("beside slow readers /stats.txt answers %d", got.code)
	}
	if n := tt.admin.unread.count(); n < maxCostly {
		t.Errorf("%d answers wait for their clients, want %d at least", n, maxCostly)
	}
	for _, c := range slow {
		c.Close()
	}
	for late := time.Now().Add(testDeadline); tt.engine.MemoryLeft() != before; {
		tt.expect("/ping.txt", 200, "pong\n")
		if time.Now().After(late) {
			t.Fatalf("%d bytes of memory are left after all answers, want %d", tt.engine.MemoryLeft(), before)
		}
	}
}

// TestSlowReaderIsCutOff tests that one who does not take an answer is cut off after a while.
func TestSlowReaderIsCutOff(t *testing.T) {
	t.Parallel()
	tt := start(t, Options{answerTime: 200 * time.Millisecond}, netloop.Options{}, defaults())
	tt.manyQueues()
	defer tt.slowReader("/stats.json").Close()
	for late := time.Now().Add(testDeadline); tt.admin.unread.count() > 0; {
		tt.expect("/ping.txt", 200, "pong\n")
		if time.Now().After(late) {
			t.Fatal("the answer is still on its way")
		}
	}
}

// TestSlowReadersGiveWay tests that unread answers take no more than their part of the memory limit: the oldest are cut off
// for new ones.
func TestSlowReadersGiveWay(t *testing.T) {
	t.Parallel()
	tt := start(t, Options{answerTime: testDeadline}, netloop.Options{}, defaults())
	tt.admin.unread.limit = func() int64 { return 20 << 20 }
	tt.manyQueues()
	var slow []net.Conn
	for range maxCostly + 3 {
		slow = append(slow, tt.slowReader("/stats.json"))
	}
	if got := tt.admin.unread.count(); got == 0 || got > maxCostly {
		t.Errorf("%d answers of some 14 MB wait for their clients, want %d: 20 MiB hold fewer", got, maxCostly)
	}
	for late := time.Now().Add(testDeadline / 2); tt.admin.room.open.Load() > maxCostly+1; { // one is ours
		tt.expect("/ping.txt", 200, "pong\n")
		if time.Now().After(late) {
			t.Fatalf("%d of %d connections are left that gave way", tt.admin.room.open.Load(), len(slow))
		}
	}
}

// TestAnswerBesideStart tests that an answer which was begun before there was a server to count memory gives none back to it.
func TestAnswerBesideStart(t *testing.T) {
	tt := startUnready(t, Options{})
	before := int64(0)
	w := &attachingWriter{ResponseWriter: httptest.NewRecorder(), attach: func() {
		tt.attach(netloop.Options{}, defaults())
		before = tt.engine.MemoryLeft()
	}}
	tt.admin.answer(w, httptest.NewRequest(http.MethodGet, "http://localhost/stats.json", nil))
	if left := tt.engine.MemoryLeft(); left != before {
		t.Errorf("%d bytes of memory are left behind the answer, want %d", left, before)
	}
}

// attachingWriter is an answer that goes to its client while the server starts.
type attachingWriter struct {
	http.ResponseWriter
	attach func()
}

func (w *attachingWriter) WriteHeader(code int) {
	w.attach()
	w.ResponseWriter.WriteHeader(code)
}

// count is how many answers are on their way.
func (u *unread) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.answers)
}

// TestTooManyConnections tests that one over the limit gets an error, and that room comes back.
func TestTooManyConnections(t *testing.T) {
	tt := startUnready(t, Options{requestTime: testDeadline})
	ping := func() (net.Conn, *http.Response, error) {
		c := tt.dial()
		io.WriteString(c, "GET /ping.txt HTTP/1.1\r\nHost: localhost\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		return c, resp, err
	}
	var held []net.Conn
	for range DefaultMaxConnections { // every one is accepted before the next is made
		c, _, err := ping()
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	tt.admin.allWork()
	resp, err := http.ReadResponse(bufio.NewReader(tt.dial()), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != 503 || string(body) != "too many connections\n" || err != nil {
		t.Errorf("one too many = %d %q, %v", resp.StatusCode, body, err)
	}
	for _, c := range held {
		c.Close()
	}
	for late := time.Now().Add(testDeadline); ; {
		c, resp, err := ping() // one over the limit may see a reset instead of the error
		c.Close()
		if err == nil && resp.StatusCode == 200 {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("when all have gone, one more = %v, %v", resp, err)
		}
	}
}

// allWork has every connection seem to be one that the server works for.
func (s *Server) allWork() {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	for c := range s.room.conns {
		c.enter(works)
	}
}

func TestLargeRequests(t *testing.T) {
	tt := startUnready(t, Options{})
	for _, v := range []struct{ request, want string }{
		{"GET /" + strings.Repeat("x", 1<<20) + " HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 431 "},
		{"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", "HTTP/1.1 431 "},
		{fmt.Sprintf("POST /ping HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", 1<<40), "HTTP/1.1 413 "},
		{"\x16\x03\x01\x00\x01\r\n\r\n", "HTTP/1.1 400 "},
		{"get work\r\n\r\n", "HTTP/1.1 400 "},
		{"GET /ping HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "}, // no Host
	} {
		c := tt.dial()
		go io.WriteString(c, v.request) // what is not read any more cannot be written
		line, err := bufio.NewReader(c).ReadString('\n')
		if !strings.HasPrefix(line, v.want) {
			t.Errorf("%.40q = %q, %v, want %q", v.request, line, err, v.want)
		}
	}
	body := "to=Up&x=" + strings.Repeat("x", maxBody)
	req, err := http.NewRequest("POST", tt.base+"/ping.txt", io.MultiReader(strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	if got := tt.send(req); got.code != 200 || got.body != "pong\n" {
		t.Errorf("a body of unknown size that nobody wants = %d %q", got.code, got.body)
	}
}

// TestProfile tests that profiles are there when they are turned on.
func TestProfile(t *testing.T) {
	t.Parallel()
	on := startUnready(t, Options{Profiling: true})
	for path, want := range map[string]string{
		"/debug/pprof/":                    "<html>",
		"/debug/pprof/goroutine?debug=1":   "goroutine profile:",
		"/debug/pprof/cmdline":             "",
		"/pprof/heap":                      "\x1f\x8b",
		"/pprof/contention?seconds=1":      "\x1f\x8b",
		"/debug/pprof/symbol":              "num_symbols: 1",
		"/debug/pprof/goroutineleak-x":     "",
		"/pprof/nosuch":                    "no such command\n",
		"/debug/pprof/profile?seconds=x":   "seconds must be",
		"/pprof/profile?seconds=301":       "seconds must be",
		"/pprof/contention?seconds=999999": "seconds must be",
	} {
		if got := on.get(path); !strings.HasPrefix(got.body, want) {
			t.Errorf("GET %s = %d %.80q, want %q", path, got.code, got.body, want)
		}
	}
	off := startUnready(t, Options{})
	off.expect("/debug/pprof/", 404, "no such command: profiling is off\n")
	off.expect("/pprof/heap", 404, "no such command: profiling is off\n")
}

// TestLongProfile tests that a profile may take longer than a client has to read an answer.
func TestLongProfile(t *testing.T) {
	t.Parallel()
	tt := startUnready(t, Options{Profiling: true, answerTime: 100 * time.Millisecond})
	for _, path := range []string{"/pprof/contention", "/debug/pprof/mutex", "/debug/pprof/block"} {
		if got := tt.get(path + "?seconds=1"); got.code != 200 || !strings.HasPrefix(got.body, "\x1f\x8b") {
			t.Errorf("GET %s of a second = %d %.80q, want a profile", path, got.code, got.body)
		}
	}
}

// failingListener fails to accept, each time with the next error, and then accepts.
type failingListener struct {
	net.Listener // nil
	errs         []error
}

func (l *failingListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *failingListener) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, &net.OpError{Op: "accept", Err: err}
	}
	c, _ := net.Pipe()
	return c, nil
}

// TestAcceptGoesOn: an error of accepting does not end the port, whether Go calls it temporary or not.
func TestAcceptGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &boundedListener{
			Port: ports.Wrap(&failingListener{errs: []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
				syscall.ENOBUFS, syscall.EIO}}, ports.Spec{}),
			room: &room{limit: 1}, log: slog.New(slog.DiscardHandler),
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatalf("Accept = %v, want a connection when the errors are over", err)
		}
		c.Close()
		l.Port.Listener = &failingListener{errs: []error{net.ErrClosed}}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept of a closed port = %v, want ErrClosed", err)
		}
	})
}

// ofThisMachine is a connection whose peer is on this machine.
type ofThisMachine struct{ net.Conn }

func (ofThisMachine) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// TestSlowPeersGiveWay tests that a connection for which there is no room takes the place of another. That is the one whose
// peer has kept the server waiting longest. The peer is silent or idle, sends half a request or a body, or does not read.
// A connection that the server works for keeps its place. Strangers give way to a peer of this machine at once.
func TestSlowPeersGiveWay(t *testing.T) {
	const ask = "GET /ping.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for _, slow := range []string{
		"", "GET /ping.txt HTTP/1.1\r\nHost:", ask, "POST /logging HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n" +
			"Content-Type: application/x-www-form-urlencoded\r\n\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &pipeListener{make(chan net.Conn), make(chan struct{})}
			a, err := New(Options{
				Address: "127.0.0.1:0", MaxConnections: 2, Listen: func(string) (net.Listener, error) { return l, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			a.Start()
			dial := func(request string) net.Conn {
				client, server := net.Pipe()
				l.conns <- server
				io.WriteString(client, request)
				synctest.Wait()
				return client
			}
			answer := func(c net.Conn) string {
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					return err.Error()
				}
				return resp.Status
			}
			refused := func() bool {
				client, server := net.Pipe()
				l.conns <- server
				got := answer(client)
				client.Close()
				return got == "503 Service Unavailable"
			}
			first := dial(slow)
			<-time.After(time.Millisecond) // so that it has waited longest
			second := dial(slow)
			<-time.After(time.Millisecond)
			if !refused() {
				t.Errorf("%q: one that came this moment gives way", slow)
			}
			here, server := net.Pipe()
			l.conns <- ofThisMachine{server}
			io.WriteString(here, ask)
			if got := answer(here); got != "200 OK" {
				t.Errorf("%q: one of this machine is answered %q beside strangers", slow, got)
			}
			if _, err := io.Copy(io.Discard, first); err != nil {
				t.Errorf("%q: the first peer: %v, want the end for one of this machine", slow, err)
			}
			here.Close()
			synctest.Wait()
			first, second = second, dial(slow)
			<-time.After(answerPatience + time.Millisecond) // of the bubble
			third := dial(ask)
			if got := answer(third); got != "200 OK" {
				t.Errorf("%q: behind slow peers a request is answered %q", slow, got)
			}
			if _, err := io.Copy(io.Discard, first); err != nil {
				t.Errorf("%q: the first peer: %v, want the end", slow, err)
			}
			synctest.Wait()
			a.allWork()
			<-time.After(answerPatience + time.Millisecond)
			if !refused() || len(a.room.conns) != 2 {
				t.Errorf("%q: one that the server works for gives way", slow)
			}
			second.Close()
			third.Close()
			if err := a.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if n := len(a.room.conns); n != 0 || a.room.open.Load() != 0 {
				t.Errorf("%q: %d connections are left", slow, n)
			}
		})
	}
}

// roomTest has connections come to a room for two, of all ports.
type roomTest struct{ room }

// port is one that takes so many connections itself.
func (r *roomTest) port(most int) *boundedListener {
	r.limit = 2
	return &boundedListener{
		Port: ports.Wrap(nil, ports.Spec{MaxConnections: most}), room: &r.room, log: slog.New(slog.DiscardHandler),
	}
}

// come returns a new connection of a port, or nil if it is refused.
func (r *roomTest) come(l *boundedListener) *boundedConn {
	_, c := net.Pipe()
	if !l.takesIn(c) {
		return nil
	}
	return r.take(&boundedConn{Conn: c, listener: l})
}

// TestFullPortCostsNoOther tests that a new connection of a port that is full takes no place of another port: it would be
// refused all the same. Of its own port it does.
func TestFullPortCostsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r roomTest
		full, other := r.port(1), r.port(2)
		r.come(other)
		<-time.After(time.Minute) // of the bubble: it has waited longest
		r.come(full)
		if r.come(full) != nil || len(r.conns) != 2 {
			t.Errorf("a port that is full takes another one; %d are left", len(r.conns))
		}
		<-time.After(time.Minute)
		if r.come(full) == nil || other.Counts().Open != 1 || full.Counts().Open != 1 {
			t.Errorf("the other port has %d connections and the full one %d, want 1", other.Counts().Open, full.Counts().Open)
		}
		if n := full.Counts().Over; n != 1 {
			t.Errorf("%d connections count as refused, want the one that was", n)
		}
	})
}

// TestAnswersGiveWayLast tests that an answer whose client stops reading for a while, such as a backup, keeps its place. It
// does so beside connections that wait for a request, however many strangers come.
func TestAnswersGiveWayLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r roomTest
		l := r.port(0)
		backup := r.come(l)
		backup.enter(answers)
		<-time.After(time.Minute) // of the bubble
		r.come(l)
		for range 10 {
			if r.come(l) != nil {
				t.Error("one that came this moment gives way")
			}
			<-time.After(2 * requestPatience)
			if r.come(l) == nil {
				t.Error("one that has sent nothing keeps others out")
			}
		}
		if _, ok := r.conns[backup]; !ok {
			t.Error("the backup has given way")
		}
		for c := range r.conns {
			c.enter(answers)
		}
		<-time.After(2 * answerPatience)
		if r.come(l) == nil {
			t.Error("answers that nobody reads keep others out")
		}
	})
}
