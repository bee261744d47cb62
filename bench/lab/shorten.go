package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
)

// shortenCommand is the word behind which the lab, started anew, runs another program and makes its
// reads and writes of files come up short: strace can only say that they did.
const shortenCommand = "shorten-calls"

// shortPrefix is a launch prefix under which every pread64 and pwrite64 of the server is
// asked for a part of its bytes only. How many were is written to a file when the server ends.
func shortPrefix(tally string) ([]string, error) {
	if !canShorten {
		return nil, fmt.Errorf("calls cannot be shortened on %s", runtime.GOARCH)
	}
	self, err := os.Executable()
	return []string{self, shortenCommand, tally}, err
}

// runShortened is what the lab does when such a prefix started it; its arguments say so. It returns the
// status to exit with.
func runShortened(args []string) (status int, is bool) {
	if len(args) < 3 || args[0] != shortenCommand {
		return 0, false
	}
	n, err := traceShortened(args[2:])
	if err == nil {
		err = os.WriteFile(args[1], []byte(strconv.Itoa(n)), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

// traceShortened runs a program to its end, and returns how many of its calls it has shortened.
func traceShortened(argv []string) (shortened int, err error) {
	runtime.LockOSThread() // the tracer is a thread
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return 0, err
	}
	const exitKill = 0x100000 // PTRACE_O_EXITKILL
	const goodStops = 1       // PTRACE_O_TRACESYSGOOD: bit 7 of the signal marks a call
	options := exitKill | goodStops | syscall.PTRACE_O_TRACECLONE
	if err := syscall.PtraceSetOptions(pid, options); err != nil {
		return 0, err
	}
	inside := make(map[int]bool) // threads that are in a call
	for tid := pid; ; {
		pass := 0
		switch signal := status.StopSignal(); {
		case status.Stopped() && signal == syscall.SIGTRAP|0x80:
			if inside[tid] = !inside[tid]; inside[tid] && shorten(tid, shortened) {
				shortened++
			}
		case signal != syscall.SIGTRAP && signal != syscall.SIGSTOP:
			pass = int(signal)
		}
		if status.Stopped() {
			syscall.PtraceSyscall(tid, pass) // fails for a thread that was killed; the next wait reports that
		} else {
			delete(inside, tid)
		}
		tid, err = syscall.Wait4(-1, &status, syscall.WALL, nil)
		for err == syscall.EINTR {
			tid, err = syscall.Wait4(-1, &status, syscall.WALL, nil)
		}
		if err != nil {
			return shortened, err
		}
		if tid == pid && !status.Stopped() {
			return shortened, nil
		}
	}
}
