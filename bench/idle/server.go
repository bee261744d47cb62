package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// server is a kestrel that was started here, and one connection to it.
type server struct {
	cmd         *exec.Cmd
	addr, admin string
	conn        net.Conn
	in          *bufio.Reader
	took        time.Duration // from exec to the first answer
}

// start starts a server on the run's directory and waits until it answers.
func (r *run) start() (s *server, err error) {
	s = &server{}
	if s.addr, err = freeAddr(); err != nil {
		return nil, err
	}
	if s.admin, err = freeAddr(); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(s.addr)
	_, adminPort, _ := net.SplitHostPort(s.admin)
	config := filepath.Join(r.dir, "kestrel.toml")
	text := fmt.Sprintf("memcache_port = %s\nadmin_port = %s\nthrift_port = \"none\"\n"+
		"text_port = \"none\"\nlog_level = \"error\"\nexpiration_timer_frequency = %q\n"+
		"[default]\nsync_journal = \"never\"\n", port, adminPort, r.sweep)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	s.cmd = exec.Command(r.binary, "serve", "--config", config,
		"--data-dir", filepath.Join(r.dir, "data"))
	s.cmd.Stderr = os.Stderr
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for time.Since(began) < time.Minute {
		if s.conn, err = net.Dial("tcp", s.addr); err == nil {
			s.in = bufio.NewReaderSize(s.conn, 1<<16)
			if _, err := s.ask1("version"); err != nil {
				s.kill()
				return nil, err
			}
			s.took = time.Since(began)
			return s, nil
		}
		time.Sleep(time.Millisecond)
	}
	s.kill()
	return nil, err
}

// freeAddr is a local address that nobody listens on, and no connection begins from.
func freeAddr() (string, error) {
	for port := 20_000 + os.Getpid()%10_000; port < 32_000; port++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+int(time.Now().UnixNano()%700)))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", errors.New("no free port below 32000")
}

// stop ends the server as SIGTERM does.
func (s *server) stop() error {
	s.conn.Close()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return s.cmd.Wait()
}

// kill ends the server as SIGKILL does.
func (s *server) kill() {
	if s.conn != nil {
		s.conn.Close()
	}
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// ask1 sends a command that is answered with one line, and returns the line.
func (s *server) ask1(command string) ([]byte, error) {
	if _, err := s.conn.Write([]byte(command + "\r\n")); err != nil {
		return nil, err
	}
	return s.in.ReadBytes('\n')
}

// batch is how many commands are sent at once.
const batch = 200

// each sends a command of every queue, and reads answers of so many lines, the last of which is
// want.
func (s *server) each(
	queues int, command func(out []byte, name string) []byte, lines int, want string,
) error {
	var out []byte
	for i := 0; i < queues; i += batch {
		n := min(batch, queues-i)
		out = out[:0]
		for j := range n {
			out = command(out, queueName(i+j))
		}
		if _, err := s.conn.Write(out); err != nil {
			return err
		}
		for range n {
			var line []byte
			var err error
			for range lines {
				if line, err = s.in.ReadSlice('\n'); err != nil {
					return err
				}
			}
			if string(line) != want+"\r\n" {
				return fmt.Errorf("answer is %q, want %q", line, want)
			}
		}
	}
	return nil
}

func queueName(i int) string { return fmt.Sprintf("idle-queue-%06d", i) }

func get(out []byte, name string) []byte { return fmt.Appendf(out, "get %s\r\n", name) }

// ask asks every queue in vain, which makes it.
func (s *server) ask(queues int) error { return s.each(queues, get, 1, "END") }

// fillAndDrain puts an item to every queue and then gets them all, so many times, and asks every
// queue in vain.
func (s *server) fillAndDrain(queues, times int) error {
	set := func(out []byte, name string) []byte {
		return fmt.Appendf(out, "set %s 0 0 100\r\n%0100d\r\n", name, 1)
	}
	for range times {
		if err := s.each(queues, set, 1, "STORED"); err != nil {
			return err
		}
		if err := s.each(queues, get, 3, "END"); err != nil {
			return err
		}
	}
	return s.ask(queues)
}

// resident is how many bytes of memory the server takes.
func (s *server) resident() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseInt(string(bytes.Fields(text)[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// tick is the unit of /proc/PID/stat: sysconf(_SC_CLK_TCK), which is 100 wherever Go runs on Linux.
const tick = 10 * time.Millisecond

// processor is how much processor time the server has taken.
func (s *server) processor() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // from the third on
	user, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}
