package ports

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// connectAs connects to a Unix socket with the rights of another user and group of the system.
func connectAs(path string, uid, gid int) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := errors.Join(unix.Setfsgid(gid), unix.Setfsuid(uid)); err != nil {
			done <- err
			return
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
			unix.Close(fd)
		}
		done <- err
	}()
	return <-done
}

// TestUnixSocketOfOthers connects as other users of the machine: the mode and the group of the socket's file say who may.
// A socket that another user has left behind is replaced, and then has the mode and group that it is to have.
func TestUnixSocketOfOthers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can act as other users")
	}
	const owner, member, group, stranger = 0, 12345, 23456, 34567
	dir := t.TempDir()
	for _, open := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i, tt := range []struct {
		spec                    Spec
		owner, member, stranger error
	}{
		{Spec{}, nil, syscall.EACCES, syscall.EACCES},
		{Spec{Mode: 0o600}, nil, syscall.EACCES, syscall.EACCES},
		{Spec{Mode: 0o600, Group: "23456"}, nil, syscall.EACCES, syscall.EACCES},
		{Spec{Mode: 0o660}, nil, syscall.EACCES, syscall.EACCES},
		{Spec{Mode: 0o660, Group: "23456"}, nil, nil, syscall.EACCES},
		{Spec{Mode: 0o640, Group: "23456"}, nil, syscall.EACCES, syscall.EACCES},
		{Spec{Mode: 0o666}, nil, nil, nil},
	} {
		path := filepath.Join(dir, string(rune('a'+i)))
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			err = errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Close(fd), os.Chown(path, stranger, stranger),
				os.Chmod(path, 0o777))
		}
		if err != nil {
			t.Fatal(err)
		}
		tt.spec.Address = "unix:" + path
		p := open(t, tt.spec)
		go func() {
			for {
				c, err := p.AcceptFrom(nil)
				if err != nil {
					return
				}
				c.Close()
			}
		}()
		for _, who := range []struct {
			name     string
			uid, gid int
			want     error
		}{{"its owner", owner, 0, tt.owner}, {"a member of the group", member, group, tt.member}, {"a stranger", stranger, stranger, tt.stranger}} {
			if err := connectAs(path, who.uid, who.gid); !errors.Is(err, who.want) {
				t.Errorf("mode %v, group %q: %s connects: %v, want %v", tt.spec.Mode, tt.spec.Group, who.name, err, who.want)
			}
		}
	}
}
