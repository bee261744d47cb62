package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

const (
	besideQueue = "beside"
	besideSize  = 64               // bytes of an item
	longest     = 20 * time.Second // that a put may take
)

// putterArg is the first argument of a process that is a putter. The others are the address of the server, puts a
// second, and the processor to run on.
const putterArg = "-putter"

// putter is a neighbour: it puts one item after the other to a queue of its own, at a rate. The load's process gives
// way to it, if the kernel allows. A client on a machine of its own would not wait for the load's client either.
type putter struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout bytes.Buffer
	stderr bytes.Buffer
}

// startPutter has a process put so many items a second until end is called.
func startPutter(addr string, rate float64, cpu int) (*putter, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := append(firstOfAll(), self, putterArg, addr, fmt.Sprint(rate), strconv.Itoa(cpu))
	p := &putter{cmd: exec.Command(command[0], command[1:]...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// firstOfAll is the command that gives all threads of another one real-time priority; none if this
// process may not. One thread would not do: Go's runtime has others run what it needs.
var firstOfAll = sync.OnceValue(func() []string {
	chrt := []string{"chrt", "--fifo", "1"}
	if exec.Command(chrt[0], append(chrt[1:], "true")...).Run() != nil {
		return nil
	}
	return chrt
})

// end ends the puts and returns how they went.
func (p *putter) end() (span, error) {
	p.stdin.Close()
	if err := p.cmd.Wait(); err != nil {
		return span{}, fmt.Errorf("neighbour: %w: %s", err, bytes.TrimSpace(p.stderr.Bytes()))
	}
	var r putterReport
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		return span{}, fmt.Errorf("neighbour: %w", err)
	}
	return span{hdrhistogram.Import(r.Latency), hdrhistogram.Import(r.Lag), r.Shared}, nil
}

// putterReport is what a putter writes to its standard output at the end.
type putterReport struct {
	Latency, Lag *hdrhistogram.Snapshot
	Shared       bool
}

// runPutter is the process of a putter, with what follows putterArg, until its standard input ends.
func runPutter(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 3 {
		return fmt.Errorf("%d arguments, want address, rate and processor", len(args))
	}
	rate, rateErr := strconv.ParseFloat(args[1], 64)
	cpu, cpuErr := strconv.Atoi(args[2])
	if err := errors.Join(rateErr, cpuErr); err != nil {
		return err
	}
	fd, err := connect(args[0])
	if err != nil {
		return fmt.Errorf("connect to %s: %w", args[0], err)
	}
	defer unix.Close(fd)
	var stop atomic.Bool
	go func() {
		io.Copy(io.Discard, stdin)
		stop.Store(true)
	}()
	s, err := putAtRate(fd, time.Duration(float64(time.Second)/rate), cpu, &stop)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(putterReport{s.latency.Export(), s.lag.Export(), s.shared})
}

func connect(addr string) (fd int, err error) {
	at, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return 0, err
	}
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err != nil {
		return 0, err
	}
	patience := unix.NsecToTimeval(longest.Nanoseconds())
	for _, err := range []error{
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.Connect(fd, &unix.SockaddrInet4{Port: at.Port, Addr: [4]byte(at.IP.To4())}),
	} {
		if err != nil {
			unix.Close(fd)
			return 0, err
		}
	}
	return fd, nil
}

// putAtRate puts until stop is set, on a thread of its own, without garbage. Raw system calls
// would be wrong here: Go's runtime takes a goroutine that makes no others for one that never ends.
func putAtRate(fd int, period time.Duration, cpu int, stop *atomic.Bool) (s span, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	if s.shared, err = occupy(cpu); err != nil {
		return s, fmt.Errorf("processor %d: %w", cpu, err)
	}
	s.latency = hdrhistogram.New(1, longest.Nanoseconds(), 3)
	s.lag = hdrhistogram.New(1, longest.Nanoseconds(), 3)
	request := fmt.Appendf(nil, "set %s 0 0 %d\r\n%s\r\n", besideQueue, besideSize,
		bytes.Repeat([]byte("x"), besideSize))
	for due := time.Now(); !stop.Load(); due = due.Add(period) {
		sleepUntil(due)
		s.lag.RecordValue(max(time.Since(due).Nanoseconds(), 1))
		if err := put(fd, request); err != nil {
			return s, err
		}
		s.latency.RecordValue(min(time.Since(due), longest).Nanoseconds())
	}
	return s, nil
}

func sleepUntil(at time.Time) {
	for d := time.Until(at); d > 0; d = time.Until(at) {
		left := unix.NsecToTimespec(d.Nanoseconds())
		nanosleep(&left)
	}
}

// put puts an item and waits for the reply.
func put(fd int, request []byte) error {
	const stored = "STORED\r\n"
	if n, err := unix.Write(fd, request); n != len(request) {
		return fmt.Errorf("send: %w", err)
	}
	var reply [len(stored)]byte
	for got := 0; got < len(reply); {
		n, err := unix.Read(fd, reply[got:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("receive: %w", err)
		case n == 0:
			return errors.New("the server has hung up")
		}
		got += n
	}
	if string(reply[:]) != stored {
		return fmt.Errorf("reply %q to a put", reply)
	}
	return nil
}
