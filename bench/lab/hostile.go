package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// hostileCase is one kind of hostile client.
type hostileCase struct {
	name   string
	config string
	slow   string // what strace makes slow, as it words it; "" for nothing
	run    func(context.Context, *trial, *server) error
}

func hostileCases() []hostileCase {
	const traced = "enable_session_trace = true\nlog_level = \"debug\"\n" +
		"[default]\nenable_trace = true\n"
	return []hostileCase{
		{"inputs", traced, "", hostileTable},
		{"slow readers", "", "", slowReaders},
		{"unread replies", "memory_limit = \"64MiB\"\n", "", unreadReplies},
		{"expensive floods", "", "", expensiveFloods},
		{"slow writers", "client_timeout = \"300ms\"\n", "", slowWriters},
		{"announced sizes", "", "", announcedSizes},
		{"half-closed sockets", "", "", halfClosed},
		{"resets", "", "", resets},
		{"connections in a row", "", "", manyConnects},
		{"storms", "max_connections = 64\n", "", storms},
		{"half-open handshakes", securedPort, "", halfOpenHandshakes},
		{"many polls", "", "", manyPolls},
		{"puts and closes", "", "fdatasync:delay_enter=300000", putsAndCloses},
		{"reloads beside open reads", "max_open_transactions = 10000\n[default]\nkeep_journal = false\n", "", reloadsBeside},
	}
}

// hostileTrial lets all of them loose, one after the other, each on a server of its own. Behind
// each case, a new client is served, and memory and descriptors are what they were. Nothing is
// written outside of the data directory, and no client has written a line of the log.
func hostileTrial(ctx context.Context, t *trial) error {
	for i, c := range hostileCases() {
		if t.only != "" && t.only != c.name {
			continue
		}
		long := ""
		for again := range turnTries {
			dir := filepath.Join(t.dir, fmt.Sprintf("hostile-%d-%d", i, again))
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			var err error
			if long, err = hostileRun(ctx, t, c, dir); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if long == "" || len(t.violations()) > 0 || ctx.Err() != nil {
				break
			}
			fmt.Fprintf(t.log, "hostile: %s: %s\n", c.name, long)
		}
		if long != "" {
			t.violate("%d times, %s", turnTries, long)
		}
		if len(t.violations()) > 0 || ctx.Err() != nil {
			t.explain("%s", c.name)
			return ctx.Err()
		}
	}
	return nil
}

// hostileRun tries one case. It says which turn of a loop was long, if one was.
func hostileRun(ctx context.Context, t *trial, c hostileCase, dir string) (long string, err error) {
	certificates, remove, err := makeCertificates()
	if err != nil {
		return "", err
	}
	defer remove()
	config := strings.ReplaceAll(c.config, certificatesHere, certificates)
	if err := os.WriteFile(filepath.Join(dir, "lab.toml"), []byte(config), 0o600); err != nil {
		return "", err
	}
	how := launch{binary: t.binary, dir: dir, args: []string{"--config", "lab.toml", "--admin-port", "auto"}}
	if c.slow != "" {
		if err := haveStrace(); err != nil {
			return "", err
		}
		calls, _, _ := strings.Cut(c.slow, ":")
		how.prefix = []string{"strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null",
			"-e", "trace=" + calls, "-e", "inject=" + c.slow}
	}
	s, err := how.start(ctx)
	if err != nil {
		return "", err
	}
	defer s.kill()
	expectService(t, s, "before anything")
	if err := c.run(ctx, t, s); err != nil {
		return "", err
	}
	expectService(t, s, "at the end")
	if !s.running() {
		t.violate("the server has ended: %s", s.lastWords())
		return "", nil
	}
	if long, err = longTurn(s); err != nil {
		return "", err
	}
	s.kill()
	for _, line := range s.logged("") {
		if c.slow != "" && line["plain"] == true && strings.HasPrefix(line.message(), "strace: ") {
			continue // it warns on the same standard error
		}
		if line["plain"] == true || line["level"] == "" || strings.HasPrefix(line.message(), marker) {
			t.violate("a line of the log is not the server's: %v", line)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Name() != "data" && e.Name() != "lab.toml" {
			t.violate("%s was written outside of the data directory", e.Name())
		}
	}
	return long, nil
}

// expectService checks that a new client of each protocol is served.
func expectService(t *trial, s *server, when string) {
	for protocol, request := range map[string]string{
		"memcache": "set fresh 0 0 1\r\nx\r\nget fresh\r\n",
		"text":     "put fresh:\nx\n\nget fresh\n",
		"thrift":   "\x00\x00\x00\x18\x80\x01\x00\x01\x00\x00\x00\x0bget_version\x00\x00\x00\x01\x00",
		"burrow":   httpRequest("PUT", "/v1.0/default/fresh/x", "x") + httpRequest("DELETE", "/v1.0/default/fresh/x?detail=body", ""),
	} {
		reply, err := exchange(s, protocol, []byte(request), len(request))
		if err != nil || len(reply) == 0 || protocol != "thrift" && !bytes.Contains(reply, []byte("x")) {
			t.violate("%s a new client of %s got %q, %v", when, protocol, reply, err)
		}
	}
}

// exchange sends input in pieces, shuts down the sending side, and returns everything that comes
// back until the server closes the connection. A reset is an end like any other.
func exchange(s *server, protocol string, input []byte, piece int) ([]byte, error) {
	conn, err := net.DialTimeout("tcp", s.addr[protocol], patience)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	for part := range slices.Chunk(input, max(piece, 1)) {
		if _, err := conn.Write(part); err != nil {
			break // it has been closed, which reading shows
		}
	}
	conn.(*net.TCPConn).CloseWrite() // fails if it has been closed
	reply, err := io.ReadAll(conn)
	if errors.Is(err, syscall.ECONNRESET) {
		err = nil
	}
	return reply, err
}

// maxGrowth is by how much the memory of a server may grow, in bytes, while it goes through what it
// has gone through before.
const maxGrowth = 1 << 20

// hostileTable sends every input to every protocol: whole, byte by byte, and cut.
func hostileTable(ctx context.Context, t *trial, s *server) error {
	inputs := hostileInputs(t.rng(0))
	cuts := 2
	if t.cycles > 1 {
		cuts = 1 << 20
	}
	var before int64
	for pass := 0; ; pass++ {
		for _, in := range inputs {
			for protocol := range protocolPorts() {
				if err := tryInput(t, s, protocol, in, cuts); err != nil {
					return fmt.Errorf("%s to %s: %w", in.name, protocol, err)
				}
			}
			if len(t.violations()) > 0 || ctx.Err() != nil {
				return ctx.Err()
			}
		}
		cuts = 1 // enough to see memory grow
		now, err := resident(s.pid)
		if err != nil {
			return err
		}
		if grown := now - before; pass > 0 && grown < maxGrowth {
			return nil
		} else if pass == 6 {
			t.violate("memory grows: by %d bytes in the last of %d passes", grown, pass+1)
			return nil
		}
		before = now
	}
}

// tryInput checks that the answer does not depend on how the bytes come, and that the server closes
// the connection when the client has.
func tryInput(t *trial, s *server, protocol string, in hostileInput, cuts int) error {
	input := []byte(in.bytes)
	whole, err := exchange(s, protocol, input, len(input))
	if err != nil {
		t.violate("%s to %s, whole: %v", in.name, protocol, err)
		return nil
	}
	most := 40 // pieces
	if t.cycles > 1 {
		most = 600
	}
	pieces, err := exchange(s, protocol, input, len(input)/most)
	if err != nil {
		t.violate("%s to %s, in pieces: %v", in.name, protocol, err)
		return nil
	}
	// A reset may overtake the end of a reply, not change it. Ids and item counts differ.
	whole, pieces = putAgain(whole), putAgain(pieces)
	if n := min(len(whole), len(pieces)); !bytes.Equal(whole[:n], pieces[:n]) && !varies(in) {
		t.violate("%s to %s got %.200q whole, and %.200q in pieces", in.name, protocol, whole, pieces)
	}
	step := max(len(input)/cuts, 1)
	if t.cycles > 1 {
		step = max(len(input)/600, step)
	}
	for at := step / 2; at < len(input); at += step {
		if _, err := exchange(s, protocol, input[:at], at); err != nil {
			t.violate("%s to %s, cut at %d: %v", in.name, protocol, at, err)
			return nil
		}
	}
	t.counts.trials.Add(1)
	return freshClient(t, s, in)
}

// putAgain is the reply to a PUT of Burrow's protocol. It is what the server would say if the message had been there
// before, and if its body had come with its head.
func putAgain(reply []byte) []byte {
	reply = bytes.ReplaceAll(reply, []byte("HTTP/1.1 100 Continue\r\n\r\n"), nil)
	return bytes.ReplaceAll(reply, []byte("HTTP/1.1 201 Created\r\n"), []byte("HTTP/1.1 204 No Content\r\n"))
}

// freshClient checks that somebody else is served.
func freshClient(t *trial, s *server, in hostileInput) error {
	reply, err := exchange(s, "memcache", []byte("set fresh 0 0 1\r\nx\r\ndelete fresh\r\n"), 64)
	if string(reply) != "STORED\r\nDELETED\r\n" || err != nil {
		t.violate("behind %s a new client got %q, %v", in.name, reply, err)
	}
	return err
}

// varies reports whether an input fetches, or removes the messages of a queue: what it gets depends on what was sent
// before.
func varies(in hostileInput) bool {
	return strings.Contains(in.bytes, "GET /") || strings.Contains(in.bytes, "get ") || strings.Contains(in.bytes, "peek ") ||
		strings.Contains(in.bytes, "monitor ") || strings.Contains(in.bytes, "DELETE /v1.0/lab/q?")
}

// resident returns the resident memory of a process in bytes.
func resident(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b))
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// descriptorsOf returns how many descriptors a process has open.
func descriptorsOf(pid int) (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(entries), err
}
