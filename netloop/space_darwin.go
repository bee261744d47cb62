package netloop

// avoidHugePages does nothing: a process cannot ask macOS for small pages.
func avoidHugePages([]byte) {}
