package segment_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// failingDisk is a file on a file system of FUSE that holds what another file does, until its reads fail as
// those of a disk do. Another process serves it: a thread of this one that faults on a map of it keeps what
// Go's runtime would need to serve it.
type failingDisk struct {
	path   string
	words  io.Writer // to the process
	answer *bufio.Reader
}

// newFailingDisk serves the file of that name until the test ends. It needs root, and /dev/fuse.
func newFailingDisk(t *testing.T, name string) *failingDisk {
	t.Helper()
	dir := t.TempDir()
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no FUSE here: ", err)
	}
	defer device.Close()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device.Fd())
	if err := unix.Mount("failing", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Skip("no file system of FUSE can be mounted (that takes root): ", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestServeFailingDisk$")
	cmd.Env = append(os.Environ(), servedFile+"="+name)
	cmd.ExtraFiles = []*os.File{device}
	cmd.Stderr = os.Stderr
	d := &failingDisk{path: filepath.Join(dir, filepath.Base(name))}
	d.words, err = cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	d.answer = bufio.NewReader(out)
	must(t, cmd.Start())
	t.Cleanup(func() {
		must(t, unix.Unmount(dir, unix.MNT_DETACH))
		cmd.Process.Kill()
		cmd.Wait()
	})
	return d
}

// fail has all reads fail from now on, and returns how many have before.
func (d *failingDisk) fail(t *testing.T) (failed int64) {
	t.Helper()
	_, err := io.WriteString(d.words, "fail\n")
	must(t, err)
	_, err = fmt.Fscanln(d.answer, &failed)
	must(t, err)
	return failed
}

// servedFile is the variable of the environment that names the file, in the process that serves it.
const servedFile = "KESTREL_FAILING_DISK"

// TestServeFailingDisk is the process that serves a failingDisk; else it tests nothing.
func TestServeFailingDisk(t *testing.T) {
	name := os.Getenv(servedFile)
	if name == "" {
		t.Skip("this is a part of TestMappedDiskFails")
	}
	of, err := os.Open(name)
	must(t, err)
	info, err := of.Stat()
	must(t, err)
	s := &diskServer{of: of, size: info.Size(), name: filepath.Base(name)}
	go func() {
		for words := bufio.NewReader(os.Stdin); ; {
			if _, err := words.ReadString('\n'); err != nil {
				os.Exit(0)
			}
			s.fails.Store(true)
			fmt.Println(s.failed.Load())
		}
	}()
	s.serve(t, 3)
}

// diskServer answers the kernel for a failingDisk.
type diskServer struct {
	of     *os.File
	size   int64
	name   string
	fails  atomic.Bool
	failed atomic.Int64 // reads that have
}

// Requests of the kernel that are answered with more than an error: see <linux/fuse.h>.
const (
	fuseLookup  = 1
	fuseForget  = 2
	fuseGetattr = 3
	fuseOpen    = 14
	fuseRead    = 15
	fuseRelease = 18
	fuseInit    = 26
	fuseOpendir = 27

	fuseIn     = 40 // bytes of a request's head
	fuseRoot   = 1  // inode
	fuseFile   = 2  // inode
	fuseMaxIn  = 1 << 20
	foreverAge = 3600 // seconds that the kernel may keep attributes
)

// serve answers the kernel until the file system is unmounted.
func (d *diskServer) serve(t *testing.T, fd int) {
	in := make([]byte, fuseMaxIn)
	for {
		n, err := unix.Read(fd, in)
		switch {
		case err == unix.EINTR || err == unix.ENOENT:
			continue
		case err == unix.ENODEV:
			return // unmounted
		case err != nil || n < fuseIn:
			t.Errorf("read of /dev/fuse = %d, %v", n, err)
			return
		}
		opcode := binary.NativeEndian.Uint32(in[4:])
		if opcode == fuseForget {
			continue
		}
		body, errno := d.answer(opcode, binary.NativeEndian.Uint64(in[16:]), in[fuseIn:n])
		out := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body)))
		out = binary.NativeEndian.AppendUint32(out, uint32(-int32(errno)))
		out = append(out, in[8:16]...) // which request
		unix.Write(fd, append(out, body...))
	}
}

func (d *diskServer) answer(opcode uint32, inode uint64, in []byte) (out []byte, errno unix.Errno) {
	put32 := func(n uint32) { out = binary.NativeEndian.AppendUint32(out, n) }
	put64 := func(n uint64) { out = binary.NativeEndian.AppendUint64(out, n) }
	attr := func(inode uint64) {
		mode, size := uint32(unix.S_IFDIR|0o755), uint64(0)
		if inode == fuseFile {
			mode, size = unix.S_IFREG|0o644, uint64(d.size)
		}
		put64(inode)
		put64(size)
		put64((size + 511) / 512)
		out = append(out, make([]byte, 3*8+3*4)...) // times
		put32(mode)
		put32(1)                               // names
		out = append(out, make([]byte, 12)...) // owner, device
		put32(4096)
		put32(0)
	}
	switch opcode {
	case fuseInit:
		put32(7)
		put32(31)
		put32(1 << 20)                         // read ahead, bytes
		put32(0)                               // flags
		put32(0)                               // requests in the background
		put32(4096)                            // bytes of a write
		out = append(out, make([]byte, 40)...) // nothing else
	case fuseLookup:
		if string(in) != d.name+"\x00" {
			return nil, unix.ENOENT
		}
		put64(fuseFile)
		put64(0)
		put64(foreverAge)
		put64(foreverAge)
		put64(0)
		attr(fuseFile)
	case fuseGetattr:
		put64(foreverAge)
		put64(0)
		attr(inode)
	case fuseOpen, fuseOpendir:
		out = make([]byte, 16)
	case fuseRead:
		offset, size := int64(binary.NativeEndian.Uint64(in[8:])), int64(binary.NativeEndian.Uint32(in[16:]))
		if d.fails.Load() {
			d.failed.Add(1)
			return nil, unix.EIO
		}
		out = make([]byte, size)
		n, _ := d.of.ReadAt(out, offset)
		out = out[:n]
	case fuseRelease:
	default:
		return nil, unix.ENOSYS
	}
	return out, 0
}
