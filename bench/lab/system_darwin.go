package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// errLinux is the error of what the laboratory asks of Linux alone.
var errLinux = fmt.Errorf("Linux alone can: %w", errors.ErrUnsupported)

func limitFileSize(int, uint64) error       { return errLinux }
func mountTmpfs(string, string, bool) error { return errLinux }
func bindMount(string, string) error        { return errLinux }
func detachMount(dir string)                { unix.Unmount(dir, unix.MNT_FORCE) }
func shutDown(*os.File, int) error          { return errLinux }

func traceShortened([]string) (int, error) { return 0, errLinux }

// serverAttr returns how a server is started. It outlives this process, should that be killed.
func serverAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
