package zktest

import "syscall"

// endsWithParent has a process be killed if this one is.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
