package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// server is a kestrel that was started here, and one connection to it.
type server struct {
	dir  string
	cmd  *exec.Cmd
	conn net.Conn
	buf  []byte
}

// start starts a server on dir, or on a new directory if it is "".
func start(binary, dir string, memory int) (s *server, err error) {
	s = &server{dir: dir}
	if dir == "" {
		if s.dir, err = os.MkdirTemp("", "backlog"); err != nil {
			return nil, err
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := free.Addr().(*net.TCPAddr)
	free.Close()
	config := filepath.Join(s.dir, "kestrel.toml")
	text := fmt.Sprintf("memcache_port = %d\nthrift_port = \"none\"\ntext_port = \"none\"\n"+
		"log_level = \"error\"\n%s[default]\nsync_journal = \"never\"\nmax_memory_size = \"%dMiB\"\n",
		addr.Port, limits(memory), memory)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	s.cmd = exec.Command(binary, "serve", "--config", config, "--data-dir", filepath.Join(s.dir, "data"))
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for range 20_000 {
		if s.conn, err = net.Dial("tcp", addr.String()); err == nil {
			return s, nil
		}
		time.Sleep(time.Millisecond)
	}
	s.kill()
	return nil, err
}

// limits keeps a server that is to keep all in memory from spilling for another reason.
func limits(memory int) string {
	if memory < 256 {
		return ""
	}
	return fmt.Sprintf("memory_limit = \"%dMiB\"\njournal_size = \"%dMiB\"\n", 4*memory, 4*memory)
}

// kill ends the server as SIGKILL does.
func (s *server) kill() {
	if s.conn != nil {
		s.conn.Close()
	}
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// remove ends the server and deletes what it wrote.
func (s *server) remove() {
	s.kill()
	os.RemoveAll(s.dir)
}

func (s *server) fill(items int, rss *int64) (time.Duration, error) {
	began := time.Now()
	pad := bytes.Repeat([]byte("x"), itemSize-12)
	stored := bytes.Repeat([]byte("STORED\r\n"), pipeline)
	var out []byte
	for i := 0; i < items; i += pipeline {
		n := min(pipeline, items-i)
		out = out[:0]
		for j := range n {
			out = fmt.Appendf(out, "set q 0 0 %d\r\n%012d%s\r\n", itemSize, i+j, pad)
		}
		got, err := s.exchange(out, 8*n)
		if err != nil {
			return 0, err
		}
		if !bytes.Equal(got, stored[:8*n]) {
			return 0, fmt.Errorf("put of item %d: %.60q", i, got)
		}
		s.watch(i, rss)
	}
	return time.Since(began), nil
}

// drain gets items from first on and checks their order.
func (s *server) drain(first, items int, rss *int64) (took, p99 time.Duration, err error) {
	began := time.Now()
	head := fmt.Sprintf("VALUE q 0 %d\r\n", itemSize)
	size := len(head) + itemSize + len("\r\nEND\r\n")
	gets := bytes.Repeat([]byte("get q\r\n"), pipeline)
	var times []time.Duration
	for i := 0; i < items; i += pipeline {
		n := min(pipeline, items-i)
		at := time.Now()
		got, err := s.exchange(gets[:7*n], size*n)
		if err != nil {
			return 0, 0, err
		}
		times = append(times, time.Since(at))
		for j := range n {
			want := fmt.Sprintf("%s%012d", head, first+i+j)
			if !bytes.HasPrefix(got[j*size:], []byte(want)) {
				return 0, 0, fmt.Errorf("got %.60q, want %q", got[j*size:], want)
			}
		}
		s.watch(i, rss)
	}
	slices.Sort(times)
	return time.Since(began), times[len(times)*99/100], nil
}

// exchange sends out and reads n bytes. They are valid until the next call.
func (s *server) exchange(out []byte, n int) ([]byte, error) {
	if err := s.conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := s.conn.Write(out); err != nil {
		return nil, err
	}
	s.buf = slices.Grow(s.buf[:0], n)[:n]
	_, err := io.ReadFull(s.conn, s.buf)
	return s.buf, err
}

// watch notes the resident memory of the server now and then.
func (s *server) watch(i int, rss *int64) {
	if i%(256*pipeline) != 0 {
		return
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
	if fields := bytes.Fields(text); err == nil && len(fields) > 1 {
		pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
		*rss = max(*rss, pages*int64(os.Getpagesize()))
	}
}
