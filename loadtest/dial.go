package loadtest

import (
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// target is a TCP address in the kernel's form. The form is rewritten by each use, so a target
// belongs to one thread.
type target struct {
	family   int
	sockaddr unix.Sockaddr

	// source, if set, is where connections come from, a different loopback address for each. A port stays taken for a
	// minute after its connection has closed. As ports run out, the search for a free one gets slower and slower. So a
	// load of short connections needs more than one address.
	source *unix.SockaddrInet4
}

// newTarget returns the target of an address; one without an IP means the loopback. manySources
// asks for a source.
func newTarget(addr *net.TCPAddr, manySources bool) *target {
	ip := addr.IP.To4()
	switch {
	case ip == nil && len(addr.IP) == net.IPv6len:
		to := &unix.SockaddrInet6{Port: addr.Port, Addr: [16]byte(addr.IP)}
		return &target{family: unix.AF_INET6, sockaddr: to}
	case ip == nil:
		ip = net.IPv4(127, 0, 0, 1).To4()
	}
	t := &target{
		family:   unix.AF_INET,
		sockaddr: &unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte(ip)},
	}
	if manySources && ip.IsLoopback() {
		t.source = &unix.SockaddrInet4{Addr: [4]byte{127, 1, 0, 0}}
	}
	return t
}

// connect starts a connection and returns its non-blocking socket, which becomes writable when the
// connection is there.
func (t *target) connect() (fd int, err error) {
	if fd, err = newSocket(t.family); err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err = t.configure(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	if err = unix.Connect(fd, t.sockaddr); err != nil && err != unix.EINPROGRESS {
		unix.Close(fd)
		return -1, os.NewSyscallError("connect", err)
	}
	return fd, nil
}

// configure sets the options of a new socket and binds it to the next source.
func (t *target) configure(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	if t.source == nil {
		return nil
	}
	if err := bindLate(fd); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	if t.source.Addr[3]++; t.source.Addr[3] == 0 {
		t.source.Addr[2]++
	}
	return os.NewSyscallError("bind", unix.Bind(fd, t.source))
}

// awaitConnect waits until the connection of fd is there, or has failed.
func awaitConnect(fd int, wait time.Duration) error {
	if err := awaitReady(fd, unix.POLLOUT, time.Now().Add(wait)); err != nil {
		return err
	}
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = unix.Errno(code)
	}
	return os.NewSyscallError("connect", err)
}
