package zktest

import "syscall"

// endsWithParent does nothing: macOS cannot kill a process because its parent is killed.
func endsWithParent() *syscall.SysProcAttr { return nil }
