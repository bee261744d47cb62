package netloop

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// burrowParts yields the parts of testdata/burrow.txt, each of which begins with an empty server, by their titles.
func burrowParts(t *testing.T) iter.Seq2[string, []string] {
	t.Helper()
	b, err := os.ReadFile("testdata/burrow.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "\nnew ")
	return func(yield func(string, []string) bool) {
		for part := range strings.SplitSeq(text, "\nnew ") {
			title, lines, _ := strings.Cut(part, "\n")
			if !yield(title, strings.Split(strings.TrimSpace(lines), "\n")) {
				return
			}
		}
	}
}

// burrowStep is a line of testdata/burrow.txt, which says what lines there are.
type burrowStep struct {
	kind           stepKind
	pair           bool // it is one of the reference's pairs
	client         byte
	request, reply string
	time           time.Duration
}

type stepKind uint8

const (
	stepAsk   stepKind = iota // the client sends the request and gets the reply
	stepSend                  // it sends the request
	stepReply                 // it gets the reply
	stepQuiet                 // it gets nothing for the time
	stepPass                  // the time passes
)

func parseBurrowStep(line string) (s burrowStep, err error) {
	if number, rest, ok := strings.Cut(line, ". "); ok {
		if _, err := strconv.Atoi(number); err == nil {
			line, s.pair = rest, true
		}
	}
	if ms, ok := strings.CutPrefix(line, "wait "); ok {
		s.kind = stepPass
		s.time, err = time.ParseDuration(ms + "ms")
		return s, err
	}
	s.client = 'A'
	var ok bool
	if s.request, s.reply, ok = strings.Cut(line, " -> "); ok {
		return s, nil
	}
	if len(line) < 4 {
		return s, fmt.Errorf("unknown step")
	}
	s.client, line, s.request = line[0], line[1:], ""
	switch rest := line[2:]; line[:2] {
	case "> ":
		s.kind, s.request = stepSend, rest
	case "< ":
		s.kind, s.reply = stepReply, rest
	case ". ":
		s.kind = stepQuiet
		s.time, err = time.ParseDuration(rest + "ms")
	default:
		err = fmt.Errorf("unknown step")
	}
	return s, err
}

// burrowRequest returns the bytes of a request, whose body comes in two chunks if chunked is set.
func burrowRequest(request string, chunked bool) []byte {
	line, body, _ := strings.Cut(request, " < ")
	body = unescape(body)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s HTTP/1.1\r\nHost: localhost\r\n", line)
	if strings.HasSuffix(line, "form") {
		b.WriteString("Content-Type: application/x-www-form-urlencoded\r\n")
	}
	if !chunked || body == "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
		return b.Bytes()
	}
	fmt.Fprintf(&b, "Transfer-Encoding: chunked\r\n\r\n1\r\n%s\r\n", body[:1])
	if len(body) > 1 {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(body)-1, body[1:])
	}
	b.WriteString("0\r\n\r\n")
	return b.Bytes()
}

// readBurrow reads a reply, which must have a length, and returns its status and its body.
func readBurrow(in *bufio.Reader) (string, error) {
	head, err := in.Peek(1)
	for err == nil && !bytes.Contains(head, []byte("\r\n\r\n")) {
		if head, err = in.Peek(in.Buffered()); err == nil && !bytes.Contains(head, []byte("\r\n\r\n")) {
			_, err = in.Peek(len(head) + 1)
		}
	}
	if head, _, _ := bytes.Cut(head, []byte("\r\n\r\n")); err == nil && !bytes.Contains(head, []byte("\r\nContent-Length: ")) {
		err = fmt.Errorf("the reply %q has no length", head)
	}
	if err != nil {
		return "", err
	}
	reply, err := http.ReadResponse(in, nil)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", reply.StatusCode, body)), nil
}

// TestBurrowPairsSocket plays the pairs over TCP, written whole and byte by byte. With -short it leaves out what
// stands behind the first step of a part that takes time.
func TestBurrowPairsSocket(t *testing.T) {
	runs := []struct {
		name  string
		size  int
		pairs atomic.Int64
	}{{name: "whole", size: 1 << 20}, {name: "bytewise", size: 1}}
	t.Run("runs", func(t *testing.T) {
		for i := range runs {
			run := &runs[i]
			for title, lines := range burrowParts(t) {
				t.Run(run.name+"/"+title, func(t *testing.T) {
					t.Parallel() // most of them wait
					s := startServer(t, DefaultEventLoop, Options{Burrow: "127.0.0.1:0", Loops: 1}, unsynced())
					p := &socketPlayer{t: t, server: s, clients: map[byte]*socketClient{}, size: run.size, began: time.Now()}
					for _, line := range lines {
						step, err := parseBurrowStep(line)
						if err == nil && testing.Short() && step.time > 0 {
							return
						}
						if err == nil {
							err = p.play(step)
						}
						if err != nil {
							t.Fatalf("%s: %v", line, err)
						}
						if step.pair {
							run.pairs.Add(1)
						}
					}
				})
			}
		}
	})
	want := int64(56)
	if testing.Short() {
		want = 40
	}
	for i := range runs {
		if n := runs[i].pairs.Load(); n != want {
			t.Errorf("%s: %d pairs were played, want %d", runs[i].name, n, want)
		}
	}
}

// socketPlayer plays steps over TCP. The time that a step says is the least that passes; where the machine is slow,
// more does.
type socketPlayer struct {
	t       *testing.T
	server  *Server
	clients map[byte]*socketClient
	size    int // bytes per write
	began   time.Time

	passed time.Duration // that the steps say
	since  time.Time     // nothing that replies wait for was sent before
	last   stepKind      // of the step before
}

type socketClient struct {
	*net.TCPConn
	in *bufio.Reader
}

func (p *socketPlayer) play(step burrowStep) error {
	defer func() { p.last = step.kind }()
	p.passed += step.time
	switch step.kind {
	case stepAsk:
		for end := time.Now().Add(testDeadline); ; {
			p.since = time.Now()
			p.send(step.client, step.request)
			err := p.expect(step.client, step.reply)
			if err == nil || p.last != stepPass || time.Now().After(end) {
				return err
			} // the time has not passed yet
		}
	case stepSend:
		if p.last == stepReply || p.last == stepPass {
			p.since = time.Now()
		}
		waiting := p.server.Stats().Waiters
		p.send(step.client, step.request)
		if method := step.request[0]; (method == 'P' || method == 'D') && strings.Contains(step.request, "wait=") {
			p.expectWaiter(waiting + 1) // the client that asks first waits first
		}
	case stepReply:
		return p.expect(step.client, step.reply)
	case stepQuiet:
		c := p.client(step.client)
		p.since = p.since.Add(step.time)
		c.SetReadDeadline(p.since)
		defer c.SetReadDeadline(time.Time{})
		if got, err := c.in.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("got %q, %v", got, err)
		}
	}
	return nil
}

// expectWaiter waits until the server has n waiters.
func (p *socketPlayer) expectWaiter(n int64) {
	p.t.Helper()
	for end := time.Now().Add(testDeadline); p.server.Stats().Waiters < n; runtime.Gosched() {
		if time.Now().After(end) {
			p.t.Fatalf("%d waiters, want %d", p.server.Stats().Waiters, n)
		}
	}
}

func (p *socketPlayer) client(name byte) *socketClient {
	p.t.Helper()
	if p.clients[name] == nil {
		c, err := net.Dial("tcp", p.server.BurrowAddr().String())
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() { c.Close() })
		tcp := c.(*net.TCPConn)
		if err := tcp.SetNoDelay(true); err != nil {
			p.t.Fatal(err)
		}
		p.clients[name] = &socketClient{tcp, bufio.NewReader(tcp)}
	}
	return p.clients[name]
}

func (p *socketPlayer) send(name byte, request string) {
	p.t.Helper()
	c := p.client(name)
	for out := burrowRequest(request, false); len(out) > 0; {
		n, err := c.Write(out[:min(p.size, len(out))])
		if err != nil {
			p.t.Fatal(err)
		}
		out = out[n:]
	}
}

// expect reads the next reply and compares it. The seconds in it may be less, by those that the machine has taken.
func (p *socketPlayer) expect(name byte, want string) error {
	c := p.client(name)
	c.SetReadDeadline(time.Now().Add(testDeadline))
	defer c.SetReadDeadline(time.Time{})
	got, err := readBurrow(c.in)
	if err != nil {
		return err
	}
	want = unescape(want)
	late := int((time.Since(p.began)-p.passed)/time.Second) + 1
	if withSeconds(got, want, late) != want {
		return fmt.Errorf("got %s, want %s, %d s less at most", got, want, late)
	}
	return nil
}

var secondsLeft = regexp.MustCompile(`"(ttl|hide)":([0-9]+)`)

// withSeconds returns got with the seconds of want where those of got are less by late at most.
func withSeconds(got, want string, late int) string {
	wants := secondsLeft.FindAllStringSubmatch(want, -1)
	return secondsLeft.ReplaceAllStringFunc(got, func(s string) string {
		if len(wants) == 0 {
			return s
		}
		w := wants[0]
		wants = wants[1:]
		name, text, _ := strings.Cut(s, ":")
		g, err := strconv.Atoi(text)
		n, err2 := strconv.Atoi(w[2])
		if err != nil || err2 != nil || name != `"`+w[1]+`"` || g > n || g < n-late {
			return s
		}
		return w[0]
	})
}
