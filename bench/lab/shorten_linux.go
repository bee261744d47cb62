package main

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

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
