package ports

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"
)

// Errors of a Unix socket, within a *net.OpError that names it.
var (
	ErrNoSocket = errors.New("a file is there that is no socket")
	ErrNoGroup  = errors.New("this machine has no group")
)

// listenUnix opens a Unix socket. Its errors are of type *net.OpError.
func listenUnix(path string, spec Spec) (net.Listener, error) {
	ln, err := openUnix(path, spec)
	var op *net.OpError
	if err != nil && !errors.As(err, &op) {
		err = &net.OpError{Op: "listen", Net: "unix", Addr: &net.UnixAddr{Name: path, Net: "unix"}, Err: err}
	}
	return ln, err
}

// openUnix opens a Unix socket. Nobody but this user can connect before its file has the mode and the group
// that it is to have.
func openUnix(path string, spec Spec) (net.Listener, error) {
	gid, err := groupID(spec.Group)
	if err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	private := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		// On Linux the file gets the mode of the descriptor; elsewhere the call fails, and umask decides.
		return raw.Control(func(fd uintptr) { syscall.Fchmod(int(fd), 0o600) })
	}}
	ln, err := private.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	mode := spec.Mode
	if mode == 0 {
		mode = DefaultMode
	}
	if gid >= 0 {
		err = os.Lchown(path, -1, gid)
	}
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}

// groupID returns the id of a group, or -1 for none.
func groupID(group string) (int, error) {
	if group == "" {
		return -1, nil
	}
	if id, err := strconv.Atoi(group); err == nil && id >= 0 {
		return id, nil
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return 0, fmt.Errorf("%w %q", ErrNoGroup, group)
	}
	return strconv.Atoi(g.Gid)
}

// removeStale removes the socket that a server has left behind that did not stop cleanly. It touches nothing
// else: no other kind of file, and no socket that somebody answers on.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return ErrNoSocket
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return &net.OpError{Op: "listen", Net: "unix", Addr: &net.UnixAddr{Name: path, Net: "unix"}, Err: syscall.EADDRINUSE}
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot tell whether a server uses the socket: %w", err)
	}
	return os.Remove(path)
}

// rawOf returns the system's view of a listener.
func rawOf(ln net.Listener) (syscall.RawConn, error) {
	sc, ok := ln.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("listener %s has no descriptor", ln.Addr())
	}
	return sc.SyscallConn()
}
