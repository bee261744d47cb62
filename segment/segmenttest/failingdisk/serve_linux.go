package failingdisk

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Requests of the kernel that are answered with more than an error, and a word to it: see <linux/fuse.h>.
const (
	opLookup  = 1
	opForget  = 2
	opGetattr = 3
	opOpen    = 14
	opRead    = 15
	opRelease = 18
	opInit    = 26
	opOpendir = 27

	notifyInvalidate = 2 // drop the pages of an inode

	headSize  = 40      // bytes of a request's head
	maxIn     = 1 << 20 // bytes of a request
	rootInode = 1
	forever   = 3600 // seconds for which the kernel may keep attributes
)

// server answers the kernel. What is not atomic does not change.
type server struct {
	device *os.File
	files  []servedFile // the i-th has the inode 2+i
	fails  atomic.Bool
	failed atomic.Int64 // reads
}

type servedFile struct {
	name string
	file *os.File
	size int64
}

func serve(dir string, device *os.File, words io.Reader, answers io.Writer) error {
	s := &server{device: device}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		s.files = append(s.files, servedFile{e.Name(), f, info.Size()})
	}
	go func() {
		s.obey(words, answers)
		os.Exit(0) // the process that made the disk is gone
	}()
	return s.answerAll()
}

// obey does what each word says, until the words end. The kernel may ask for pages meanwhile, which answerAll gives it.
func (s *server) obey(words io.Reader, answers io.Writer) {
	for lines := bufio.NewScanner(words); lines.Scan(); {
		switch lines.Text() {
		case "fail":
			s.fails.Store(true)
		case "heal":
			s.fails.Store(false)
		case "forget":
			s.forget()
		}
		fmt.Fprintln(answers, lines.Text())
		if lines.Text() == "count" {
			fmt.Fprintln(answers, s.failed.Load())
		}
	}
}

// forget has the kernel drop the pages of every file.
func (s *server) forget() {
	for i := range s.files {
		out := binary.NativeEndian.AppendUint32(nil, 16+24)
		out = binary.NativeEndian.AppendUint32(out, notifyInvalidate)
		out = binary.NativeEndian.AppendUint64(out, 0) // answers nothing
		out = binary.NativeEndian.AppendUint64(out, uint64(2+i))
		out = append(out, make([]byte, 16)...)          // from the beginning to the end
		if _, err := s.device.Write(out); err != nil && // ENOENT: the kernel knows no such file
			!errors.Is(err, unix.ENOENT) {
			fmt.Fprintln(os.Stderr, "failing disk: forget:", err)
		}
	}
}

// answerAll answers the kernel until the file system is unmounted.
func (s *server) answerAll() error {
	in := make([]byte, maxIn)
	for {
		n, err := unix.Read(int(s.device.Fd()), in)
		switch {
		case err == unix.EINTR || err == unix.ENOENT:
			continue
		case err == unix.ENODEV:
			return nil // unmounted
		case err != nil || n < headSize:
			return fmt.Errorf("read of /dev/fuse: %d bytes, %w", n, err)
		}
		opcode := binary.NativeEndian.Uint32(in[4:])
		if opcode == opForget {
			continue
		}
		body, errno := s.answer(opcode, binary.NativeEndian.Uint64(in[16:]), in[headSize:n])
		out := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body)))
		out = binary.NativeEndian.AppendUint32(out, uint32(-int32(errno)))
		out = append(out, in[8:16]...) // which request
		unix.Write(int(s.device.Fd()), append(out, body...))
	}
}

// file returns the file of an inode, or nil.
func (s *server) file(inode uint64) *servedFile {
	if inode < 2 || inode-2 >= uint64(len(s.files)) {
		return nil
	}
	return &s.files[inode-2]
}

func (s *server) answer(opcode uint32, inode uint64, in []byte) (out []byte, errno unix.Errno) {
	put32 := func(n uint32) { out = binary.NativeEndian.AppendUint32(out, n) }
	put64 := func(n uint64) { out = binary.NativeEndian.AppendUint64(out, n) }
	attr := func(inode uint64) {
		mode, size := uint32(unix.S_IFDIR|0o755), uint64(0)
		if f := s.file(inode); f != nil {
			mode, size = unix.S_IFREG|0o644, uint64(f.size)
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
	case opInit:
		put32(7)
		put32(31)
		put32(1 << 20)                         // read ahead, bytes
		put32(0)                               // flags
		put32(0)                               // requests in the background
		put32(4096)                            // bytes of a write
		out = append(out, make([]byte, 40)...) // nothing else
	case opLookup:
		for i, f := range s.files {
			if string(in) == f.name+"\x00" {
				put64(uint64(2 + i))
				put64(0)
				put64(forever)
				put64(forever)
				put64(0)
				attr(uint64(2 + i))
				return out, 0
			}
		}
		return nil, unix.ENOENT
	case opGetattr:
		put64(forever)
		put64(0)
		attr(inode)
	case opOpen, opOpendir:
		out = make([]byte, 16)
	case opRead:
		f := s.file(inode)
		if f == nil || s.fails.Load() {
			s.failed.Add(1)
			return nil, unix.EIO
		}
		offset, size := int64(binary.NativeEndian.Uint64(in[8:])), int64(binary.NativeEndian.Uint32(in[16:]))
		out = make([]byte, size)
		n, _ := f.file.ReadAt(out, offset)
		out = out[:n]
	case opRelease:
	default:
		return nil, unix.ENOSYS
	}
	return out, 0
}
