package netloop

import (
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// benchClient is a client on the thread of its goroutine alone, which it keeps and blocks. What the
// process uses beside that thread is the server's.
type benchClient struct {
	b  *testing.B
	fd int

	process, thread time.Duration // when begin was called
}

// dialBench connects to addr, for the goroutine that calls it.
func dialBench(b *testing.B, addr net.Addr) *benchClient {
	runtime.LockOSThread()
	b.Cleanup(runtime.UnlockOSThread)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Close(fd) })
	at := addr.(*net.TCPAddr)
	to := &unix.SockaddrInet4{Port: at.Port, Addr: [4]byte(at.IP.To4())}
	if err := unix.Connect(fd, to); err != nil {
		b.Fatal(err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		b.Fatal(err)
	}
	return &benchClient{b: b, fd: fd}
}

func (c *benchClient) write(p []byte) {
	for len(p) > 0 {
		n, err := unix.Write(c.fd, p)
		if err != nil {
			c.b.Fatal(err)
		}
		p = p[n:]
	}
}

// read reads all of p.
func (c *benchClient) read(p []byte) {
	for len(p) > 0 {
		n, err := unix.Read(c.fd, p)
		if err != nil || n == 0 {
			c.b.Fatalf("read %d bytes: %v", n, err)
		}
		p = p[n:]
	}
}

// readSome appends what comes next to buf, which has room for it.
func (c *benchClient) readSome(buf []byte) []byte {
	n, err := unix.Read(c.fd, buf[len(buf):cap(buf)])
	if err != nil || n == 0 {
		c.b.Fatalf("read %d bytes: %v", n, err)
	}
	return buf[:len(buf)+n]
}

// begin is to be called before the turns to be measured.
func (c *benchClient) begin() {
	c.process, c.thread = processTime(c.b), threadTime(c.b)
}

// report reports the server's processor time since begin, for each of n items.
func (c *benchClient) report(n int) {
	used := processTime(c.b) - c.process - (threadTime(c.b) - c.thread)
	c.b.ReportMetric(float64(used.Nanoseconds())/float64(n), "server-ns/item")
}

// processTime is how long the threads of the process have run.
func processTime(b *testing.B) time.Duration { return cpuTime(b, unix.CLOCK_PROCESS_CPUTIME_ID) }

// threadTime is how long the calling thread has run, which does not depend on who else does.
func threadTime(b *testing.B) time.Duration { return cpuTime(b, unix.CLOCK_THREAD_CPUTIME_ID) }

func cpuTime(b *testing.B, clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}
