package segment

// AdviseHuge does nothing: a process cannot ask macOS for huge pages.
func AdviseHuge([]byte) {}
