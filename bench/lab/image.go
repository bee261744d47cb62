package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// image is a file system in a file, whose power can be cut.
type image struct {
	kind  string // ext4 or xfs
	file  string
	mount string // where it is mounted
}

// Sizes of images in bytes: mkfs.xfs makes nothing smaller than 300 MiB. The files are sparse.
const (
	ext4Size = 96 << 20
	xfsSize  = 320 << 20
)

// Of the shutdown ioctl, which ext4 and XFS share: see ioctl_xfs_goingdown(2). Data that was not
// written back is lost in both cases; with a log flush, changes of names and sizes are not.
const (
	shutdownIoctl   = 0x8004587d
	shutdownFlush   = 1
	shutdownNoFlush = 2
)

// newImage makes a file system in dir. The error says what this machine lacks, if it is that.
func newImage(ctx context.Context, kind, dir string) (*image, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("mounting %s images needs root", kind)
	}
	m := &image{kind: kind, file: filepath.Join(dir, kind+".img"), mount: filepath.Join(dir, kind)}
	size, args := int64(ext4Size), []string{"-q", "-F", m.file}
	if kind == "xfs" {
		size, args = xfsSize, []string{"-q", "-f", m.file}
	}
	if err := os.Mkdir(m.mount, 0o700); err != nil {
		return nil, err
	}
	f, err := os.Create(m.file)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	if err := command(ctx, "mkfs."+kind, args...); err != nil {
		return nil, err
	}
	return m, m.attach(ctx)
}

// attach mounts the image. The loop device goes when it is unmounted.
func (m *image) attach(ctx context.Context) error {
	return command(ctx, "mount", "-t", m.kind, "-o", "loop", m.file, m.mount)
}

// cut cuts the power. From now on every write to the file system fails. What was not durable is
// gone when it is mounted again.
func (m *image) cut(flags int) error {
	d, err := os.Open(m.mount)
	if err != nil {
		return err
	}
	defer d.Close()
	return shutDown(d, flags)
}

// detach unmounts the image; nothing may use it any more.
func (m *image) detach() error {
	if err := unix.Unmount(m.mount, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", m.mount, err)
	}
	return nil
}

// remove unmounts and removes the image, whatever state it is in.
func (m *image) remove() {
	detachMount(m.mount) // it may not be mounted
	os.Remove(m.file)
	os.Remove(m.mount)
}

// command runs a program to its end, and returns what it printed if it failed.
func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w %s", name, err, out)
	}
	return nil
}

// memoryDir returns a directory for files that need not survive anything: in memory if there is
// one.
func memoryDir(name, otherwise string) (dir string, remove func(), err error) {
	if _, err := os.Stat("/dev/shm"); err == nil {
		dir, err = os.MkdirTemp("/dev/shm", dirPattern(name))
		return dir, func() { os.RemoveAll(dir) }, err
	}
	return otherwise, func() {}, nil
}
