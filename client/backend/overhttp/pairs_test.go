package overhttp

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/client/backend/backendtest"
)

// TestPairs plays the request pairs of Burrow 2011.3 that a kestrel server is held to. Their format is said
// in the file.
func TestPairs(t *testing.T) {
	b, err := os.ReadFile("../../../netloop/testdata/burrow.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "\nnew ")
	pairs := 0
	for _, run := range []struct {
		name    string
		proxied bool
		step    int // bytes that are written at a time
	}{{"whole", false, 1 << 20}, {"bytewise", false, 1}, {"proxy", true, 1 << 20}} {
		for _, part := range strings.Split(text, "\nnew ") {
			title, lines, _ := strings.Cut(part, "\n")
			t.Run(run.name+"/"+title, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, _ := front(t, memory(t))
					if run.proxied {
						l, _ = front(t, remote(t, l))
					}
					p := &player{listener: l, step: run.step, clients: map[byte]*pipeClient{}}
					for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
						if _, err := strconv.Atoi(strings.Split(line, ". ")[0]); err == nil {
							pairs++
						}
						if err := p.play(line); err != nil {
							t.Errorf("%s: %v", line, err)
							break
						}
					}
					for _, c := range p.clients {
						c.conn.Close()
						<-c.ended
					}
				})
			})
		}
	}
	if want := 3 * 56; pairs != want {
		t.Errorf("%d pairs were played, want %d", pairs, want)
	}
}

// player plays lines of the file.
type player struct {
	listener *backendtest.Pipes
	step     int
	clients  map[byte]*pipeClient
}

// pipeClient is a connection that gathers what comes.
type pipeClient struct {
	conn  net.Conn
	ended chan struct{}
	mu    sync.Mutex
	got   []byte
}

func (p *player) client(t byte) (*pipeClient, error) {
	if c := p.clients[t]; c != nil {
		return c, nil
	}
	conn, err := p.listener.Dial(context.Background(), "", "")
	if err != nil {
		return nil, err
	}
	c := &pipeClient{conn: conn, ended: make(chan struct{})}
	p.clients[t] = c
	go func() {
		defer close(c.ended)
		piece := make([]byte, 4<<10)
		for {
			n, err := conn.Read(piece)
			c.mu.Lock()
			c.got = append(c.got, piece[:n]...)
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return c, nil
}

// play plays one line.
func (p *player) play(line string) error {
	if number, rest, ok := strings.Cut(line, ". "); ok {
		if _, err := strconv.Atoi(number); err == nil {
			line = rest
		}
	}
	if ms, ok := strings.CutPrefix(line, "wait "); ok {
		return pass(ms)
	}
	if request, reply, ok := strings.Cut(line, " -> "); ok {
		if err := p.send('A', request); err != nil {
			return err
		}
		return p.expect('A', reply)
	}
	rest := line[min(3, len(line)):]
	switch line[1:3] {
	case "> ":
		defer synctest.Wait() // who asks first waits first
		return p.send(line[0], rest)
	case "< ":
		return p.expect(line[0], rest)
	case ". ":
		if err := pass(rest); err != nil {
			return err
		}
		c, err := p.client(line[0])
		if err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.got) > 0 {
			return fmt.Errorf("got %q", c.got)
		}
		return nil
	}
	return fmt.Errorf("unknown step")
}

func pass(ms string) error {
	n, err := strconv.Atoi(ms)
	<-time.After(time.Duration(n) * time.Millisecond)
	synctest.Wait()
	return err
}

// unescape returns s with its escapes replaced.
func unescape(s string) string {
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(strings.ReplaceAll(s, `\u`, `\\u`), `"`, `\"`) + `"`)
	if err != nil {
		return s
	}
	return text
}

// send sends a request.
func (p *player) send(name byte, request string) error {
	c, err := p.client(name)
	if err != nil {
		return err
	}
	line, body, _ := strings.Cut(request, " < ")
	body = unescape(body)
	form := ""
	if strings.HasSuffix(line, "form") {
		form = "Content-Type: application/x-www-form-urlencoded\r\n"
	}
	for out := []byte(fmt.Sprintf("%s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s", line, form, len(body), body)); len(out) > 0; {
		n, err := c.conn.Write(out[:min(p.step, len(out))])
		if err != nil {
			return err
		}
		out = out[n:]
	}
	return nil
}

// expect takes the next reply and compares it. Every reply must have a length, also an empty one.
func (p *player) expect(name byte, want string) error {
	c, err := p.client(name)
	if err != nil {
		return err
	}
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	in := bufio.NewReader(bytes.NewReader(c.got))
	reply, err := http.ReadResponse(in, nil)
	if err != nil {
		return fmt.Errorf("got %q: %v", c.got, err)
	}
	head, _, _ := bytes.Cut(c.got, []byte("\r\n\r\n"))
	if !bytes.Contains(bytes.ToLower(head), []byte("\r\ncontent-length: ")) {
		return fmt.Errorf("the reply %q has no length", head)
	}
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		return fmt.Errorf("got %q: %v", c.got, err)
	}
	got := strings.TrimSpace(fmt.Sprintf("%d %s", reply.StatusCode, body))
	if want := unescape(want); got != want {
		return fmt.Errorf("got %s, want %s", got, want)
	}
	left, _ := io.ReadAll(in)
	c.got = left
	return nil
}
