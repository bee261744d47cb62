package main

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// occupy fails: macOS does not restrict threads to processors.
func occupy(int) (shared bool, err error) { return false, errors.ErrUnsupported }

// nanosleep sleeps.
func nanosleep(d *unix.Timespec) { time.Sleep(time.Duration(d.Nano())) }
