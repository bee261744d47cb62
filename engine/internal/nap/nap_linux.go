package nap

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is a timer of the kernel that is a file. The runtime's poller wakes the goroutine that reads it when it rings,
// to a few microseconds; that takes no thread meanwhile.
type alarm struct {
	file *os.File // nil before the first nap
	fd   int
}

func (a *alarm) wait(d time.Duration) error {
	if a.file == nil {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
		if err != nil {
			return err
		}
		a.file, a.fd = os.NewFile(uintptr(fd), "timerfd"), fd
	}
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	if err := unix.TimerfdSettime(a.fd, 0, &at, nil); err != nil {
		return err
	}
	var rings [8]byte // how often it has rung
	_, err := a.file.Read(rings[:])
	return err
}

func (a *alarm) close() {
	if a.file != nil {
		a.file.Close()
		a.file = nil
	}
}
