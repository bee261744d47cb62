package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// askWait is how long a reply may take that does not wait for a message, and a server to be ready.
const askWait = time.Minute

// server is one that runs.
type server struct {
	*spawn.Process
	http, memcache, admin string // addresses; of nginx the first only
}

// ports returns different free ports.
func ports(n int) (list []int, err error) {
	for len(list) < n {
		port, err := spawn.FreePort()
		if err != nil {
			return nil, err
		}
		fresh := true
		for _, p := range list {
			fresh = fresh && p != port
		}
		if fresh {
			list = append(list, port)
		}
	}
	return list, nil
}

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// startKestrel starts a server whose configuration ends with more.
func (b *bench) startKestrel(ctx context.Context, more string) (*server, error) {
	p, err := ports(3)
	if err != nil {
		return nil, err
	}
	s := &server{http: address(p[0]), memcache: address(p[1]), admin: address(p[2])}
	config := fmt.Sprintf("burrow_port = %d\nmemcache_port = %d\nadmin_port = %d\ntext_port = \"none\"\nthrift_port = \"none\"\n"+
		"pprof = true\nlog_level = \"error\"\n[default]\nsync_journal = \"never\"\n%s", p[0], p[1], p[2], more)
	s.Process, err = spawn.Start(ctx, spawn.Options{
		Name: "kestrel", Program: b.kestrel, Dir: b.dir, CPUs: []int{serverCPU},
		Args: func(dir string) ([]string, error) {
			file := filepath.Join(dir, "kestrel.toml")
			return []string{"serve", "--config", file, "--data-dir", filepath.Join(dir, "data")}, os.WriteFile(file, []byte(config), 0o600)
		},
		Ready: s.answers,
	})
	return s, err
}

// startNginx starts nginx with one process that answers 204 to everything.
func (b *bench) startNginx(ctx context.Context) (*server, error) {
	p, err := ports(1)
	if err != nil {
		return nil, err
	}
	s := &server{http: address(p[0])}
	s.Process, err = spawn.Start(ctx, spawn.Options{
		Name: "nginx", Program: "nginx", Dir: b.dir, CPUs: []int{serverCPU},
		Args: func(dir string) ([]string, error) {
			var paths strings.Builder
			for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
				fmt.Fprintf(&paths, "  %s_temp_path %s;\n", kind, filepath.Join(dir, kind))
			}
			config := fmt.Sprintf("daemon off;\nmaster_process off;\nerror_log stderr crit;\npid %s;\nevents { worker_connections 1024; }\n"+
				"http {\n  access_log off;\n  keepalive_requests 1000000000;\n  keepalive_timeout 600s;\n%s"+
				"  server { listen 127.0.0.1:%d; location / { return 204; } }\n}\n", filepath.Join(dir, "pid"), paths.String(), p[0])
			file := filepath.Join(dir, "nginx.conf")
			return []string{"-c", file, "-e", "stderr"}, os.WriteFile(file, []byte(config), 0o600)
		},
		Ready: s.answers,
	})
	return s, err
}

func (s *server) answers() error {
	c, err := dial(s.http)
	if err == nil {
		c.Close()
	}
	return err
}

// heap returns the bytes of the server's heap that are in use behind a collection.
func (s *server) heap() (int64, error) {
	reply, err := http.Get("http://" + s.admin + "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return 0, err
	}
	_, rest, ok := bytes.Cut(text, []byte("\n# HeapAlloc = "))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	if !ok {
		return 0, fmt.Errorf("the profile of the heap is %.200q", text)
	}
	return strconv.ParseInt(string(line), 10, 64)
}

// awaitWaiters waits until a queue has n waiters.
func (s *server) awaitWaiters(queue string, n int) error {
	c, err := dial(s.http)
	if err != nil {
		return err
	}
	defer c.Close()
	want := fmt.Sprintf(`"waiters":%d,`, n)
	for end := time.Now().Add(askWait); ; time.Sleep(10 * time.Millisecond) {
		status, body, err := c.askHTTP("GET", "/v1.1/"+queue, "")
		if err != nil || bytes.Contains(body, []byte(want)) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("queue %s is %d %s, want %s", queue, status, body, want)
		}
	}
}

// conn is a connection of a client.
type conn struct {
	net.Conn
	in *bufio.Reader
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, askWait)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(askWait))
	return &conn{c, bufio.NewReaderSize(c, 4<<10)}, nil
}

// request returns the bytes of a request of HTTP. Only a PUT and a POST with a body have a length.
func request(method, target, body string) []byte {
	out := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, target)
	if body != "" {
		out = fmt.Appendf(out, "Content-Length: %d\r\n", len(body))
	}
	return append(append(out, "\r\n"...), body...)
}

// askHTTP sends a request and returns the status and the body of the reply.
func (c *conn) askHTTP(method, target, body string) (int, []byte, error) {
	c.SetDeadline(time.Now().Add(askWait))
	if _, err := c.Write(request(method, target, body)); err != nil {
		return 0, nil, err
	}
	return c.replyHTTP()
}

// replyHTTP reads a reply that has a length. The body is good until the next call.
func (c *conn) replyHTTP() (status int, body []byte, err error) {
	length := 0
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch name, value, _ := bytes.Cut(line, []byte(": ")); {
		case first && len(line) >= len("HTTP/1.1 200"):
			if status, err = strconv.Atoi(string(line[len("HTTP/1.1 "):len("HTTP/1.1 200")])); err != nil {
				return 0, nil, fmt.Errorf("reply %q", line)
			}
		case first:
			return 0, nil, fmt.Errorf("reply %q", line)
		case string(name) == "Content-Length":
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, nil, fmt.Errorf("length %q", value)
			}
		case len(line) == 0:
			body, err = c.in.Peek(length)
			if errors.Is(err, bufio.ErrBufferFull) {
				return 0, nil, fmt.Errorf("a body of %d bytes", length)
			}
			c.in.Discard(len(body))
			return status, body, err
		}
	}
}

// expectLines reads lines of a reply of memcache's protocol, of which the first begins as it should, and returns the
// second.
func (c *conn) expectLines(n int, begins string) (second []byte, err error) {
	for i := range n {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if i == 0 && !bytes.HasPrefix(line, []byte(begins)) {
			return nil, fmt.Errorf("reply %q, want %s", line, begins)
		}
		if i == 1 {
			second = append(second, bytes.TrimRight(line, "\r\n")...)
		}
	}
	return second, nil
}
