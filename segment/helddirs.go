package segment

import (
	"os"
	"path/filepath"
	"sync"
)

// HeldDirs is OS with directories that are kept open: where a process is out of descriptors, SyncDir of
// one of them still works. Its methods may be called from any goroutine.
type HeldDirs struct {
	OS

	mu   sync.Mutex
	dirs map[string]*os.File // by path; guarded by mu
}

var (
	_ FS         = (*HeldDirs)(nil)
	_ UncachedFS = (*HeldDirs)(nil)
)

// NewHeldDirs returns a HeldDirs that keeps nothing open yet.
func NewHeldDirs() *HeldDirs { return &HeldDirs{dirs: make(map[string]*os.File)} }

// Hold keeps a directory open until LetGo, Remove or Close.
func (h *HeldDirs) Hold(dir string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	dir = filepath.Clean(dir)
	if h.dirs[dir] != nil {
		return nil
	}
	d, err := os.Open(dir)
	if err == nil {
		h.dirs[dir] = d
	}
	return err
}

func (h *HeldDirs) held(dir string) *os.File {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dirs[filepath.Clean(dir)]
}

// LetGo closes a directory if it is held.
func (h *HeldDirs) LetGo(dir string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	dir = filepath.Clean(dir)
	if d := h.dirs[dir]; d != nil {
		d.Close()
		delete(h.dirs, dir)
	}
}

// SyncDir implements [FS].
func (h *HeldDirs) SyncDir(dir string) error {
	if d := h.held(dir); d != nil {
		return d.Sync()
	}
	return h.OS.SyncDir(dir)
}

// Remove implements [FS].
func (h *HeldDirs) Remove(path string) error {
	err := h.OS.Remove(path)
	if err == nil {
		h.LetGo(path)
	}
	return err
}

// Close closes every directory; the HeldDirs can be used again.
func (h *HeldDirs) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.dirs {
		d.Close()
	}
	clear(h.dirs)
	return nil
}
