package netloop

import (
	"net"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/engine"
)

// BenchmarkLongPolls measures what a long poll of Burrow's protocol takes of the server's memory, in B/poll. Its
// clients are bare descriptors, so all else that the process takes is the server's.
func BenchmarkLongPolls(b *testing.B) {
	const polls = 5000
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 2*polls+100 {
		b.Skipf("%d descriptors are not enough", limit.Cur)
	}
	for b.Loop() {
		s := startServer(b, DefaultEventLoop, Options{Burrow: "127.0.0.1:0", Loops: 1, MaxConnections: polls + 10}, unsynced())
		port := s.BurrowAddr().(*net.TCPAddr).Port
		taken := func() int64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc + m.StackInuse)
		}
		request := []byte("POST /v1.0/acme/jobs?limit=1&hide=30&wait=300 HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")
		before := taken()
		fds := make([]int, 0, polls)
		for range polls {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
			if err == nil {
				err = unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
			}
			if err == nil {
				_, err = unix.Write(fd, request)
			}
			if err != nil {
				b.Fatal(err)
			}
			fds = append(fds, fd)
		}
		for {
			q, ok := s.opts.Engine.QueueStats(engine.Now(), []byte("acme/jobs"))
			if ok && q.Waiters == polls {
				break
			}
			runtime.Gosched()
		}
		b.ReportMetric(float64(taken()-before)/polls, "B/poll")
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
}
