package main

import "syscall"

// canShorten says that this machine's registers are known.
const canShorten = true

// shorten is called when a thread of a traced process begins a call. If the call reads or writes at
// a place in a file, shorten makes it do so with fewer bytes. n is how many were shortened before.
func shorten(tid, n int) bool {
	var regs syscall.PtraceRegs
	if syscall.PtraceGetRegs(tid, &regs) != nil {
		return false
	}
	reads, writes := regs.Orig_rax == syscall.SYS_PREAD64, regs.Orig_rax == syscall.SYS_PWRITE64
	if !reads && !writes || regs.Rdx < 2 {
		return false
	}
	regs.Rdx = 1 + regs.Rdx*uint64(n%7)/8
	return syscall.PtraceSetRegs(tid, &regs) == nil
}
