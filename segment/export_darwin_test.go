package segment

// PastCache reports whether a file of OS is used past the page cache. macOS does not say.
func PastCache(f File) bool {
	_, ok := f.(uncachedFile)
	return ok
}
