package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitFileSize bounds the length of files that a process writes, in bytes.
func limitFileSize(pid int, size uint64) error {
	return unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}, nil)
}

// mountTmpfs mounts a file system in memory, made with options.
func mountTmpfs(dir, options string, readOnly bool) error {
	flags := uintptr(0)
	if readOnly {
		flags = unix.MS_RDONLY
	}
	return unix.Mount("tmpfs", dir, "tmpfs", flags, options)
}

// bindMount has a file be seen in place of another.
func bindMount(file, at string) error { return unix.Mount(file, at, "", unix.MS_BIND, "") }

// detachMount unmounts what is mounted, also if it is in use.
func detachMount(dir string) { unix.Unmount(dir, unix.MNT_DETACH) }

// shutDown has the file system that an open directory is on fail from now on.
func shutDown(dir *os.File, flags int) error {
	return unix.IoctlSetPointerInt(int(dir.Fd()), shutdownIoctl, flags)
}

// serverAttr returns how a server is started.
func serverAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL, // should this process be killed
		Setpgid:   true,            // an interrupt at the terminal is ours alone
	}
}
