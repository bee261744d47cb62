package failingdisk

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// ErrUnavailable is the error of a machine on which no such disk can be made.
var ErrUnavailable = errors.New("no failing disk can be made here: that takes Linux, root and /dev/fuse")

// serveCommand is the first argument of the process that serves a disk; the directory is the second.
const serveCommand = "serve-failing-disk"

// Disk is a file system whose reads can be made to fail. Its methods are for one goroutine.
type Disk struct {
	mount  string
	server *exec.Cmd
	words  io.WriteCloser // to the server
	answer *bufio.Reader
}

// New mounts a disk at an empty directory. It has the files that dir has now. The error wraps ErrUnavailable if this
// machine has no such disks. The caller closes the disk.
func New(mount, dir string) (*Disk, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	device, err := attach(mount)
	if err != nil {
		return nil, err
	}
	defer device.Close()
	d := &Disk{mount: mount, server: exec.Command(self, serveCommand, dir)}
	d.server.ExtraFiles = []*os.File{device}
	d.server.Stderr = os.Stderr
	var out io.Reader
	if d.words, err = d.server.StdinPipe(); err == nil {
		out, err = d.server.StdoutPipe()
	}
	if err == nil {
		err = d.server.Start()
	}
	if err != nil {
		return nil, errors.Join(err, detach(mount))
	}
	d.answer = bufio.NewReader(out)
	return d, nil
}

// Fail has every read of the disk fail with EIO from now on. Pages that the kernel has read stay readable: see
// Forget.
func (d *Disk) Fail() error { return d.say("fail") }

// Heal ends what Fail began.
func (d *Disk) Heal() error { return d.say("heal") }

// Forget has the kernel drop every page of the files that it has read, those that are mapped too. The next access to
// one reads the disk again.
func (d *Disk) Forget() error { return d.say("forget") }

// Failed returns how many reads have failed.
func (d *Disk) Failed() (reads int64, err error) {
	if err := d.say("count"); err != nil {
		return 0, err
	}
	_, err = fmt.Fscanln(d.answer, &reads)
	return reads, err
}

// say has the server do something, and waits until it is done.
func (d *Disk) say(word string) error {
	if _, err := fmt.Fprintln(d.words, word); err != nil {
		return fmt.Errorf("failing disk: %w", err)
	}
	line, err := d.answer.ReadString('\n')
	if err == nil && line != word+"\n" {
		err = fmt.Errorf("the server of the disk said %q", line)
	}
	return err
}

// Close unmounts the disk, and ends its server. Files that are still open fail from then on.
func (d *Disk) Close() error {
	err := detach(d.mount)
	d.words.Close()
	d.server.Process.Kill()
	d.server.Wait()
	return err
}

// Served serves a disk to its end if the arguments of the process, without its name, say that it is to. It returns
// the status to exit with then.
func Served(args []string) (status int, is bool) {
	if len(args) != 2 || args[0] != serveCommand {
		return 0, false
	}
	if err := serve(args[1], os.NewFile(3, "/dev/fuse"), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "failing disk:", err)
		return 1, true
	}
	return 0, true
}
