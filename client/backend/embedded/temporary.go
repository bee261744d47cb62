package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/engine"
)

// temporary matches the names of directories that Memory makes.
var temporary = regexp.MustCompile(`^kestrel-memory-[0-9]+$`)

// mostTries is how many directories openTemporary makes.
const mostTries = 10

// openTemporary opens a store in a temporary directory. It first removes those whose process was killed.
func openTemporary(options engine.QueueOptions, o Options) (*Store, error) {
	removeLeftovers(os.TempDir())
	for try := 1; ; try++ {
		dir, err := os.MkdirTemp("", "kestrel-memory-")
		if err != nil {
			return nil, err
		}
		s, err := open(dir, options, o)
		if err == nil {
			s.temp = dir
			return s, nil
		}
		os.RemoveAll(dir)
		// Another process may have taken this new directory for a leftover, in the moment before it was locked.
		if !errors.Is(err, engine.ErrLocked) || try == mostTries {
			return nil, err
		}
	}
}

// removeLeftovers removes the directories of stores whose process has ended without Close. The engine's lock tells: the
// operating system releases it with the process. What cannot be removed stays, for the next one that can.
func removeLeftovers(in string) {
	entries, err := os.ReadDir(in)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if dir := filepath.Join(in, entry.Name()); temporary.MatchString(entry.Name()) && isMine(dir) {
			removeUnlocked(dir)
		}
	}
}

// isMine reports whether a directory is this user's own: nobody else has put something there.
func isMine(dir string) bool {
	var s unix.Stat_t
	return unix.Lstat(dir, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFDIR && int(s.Uid) == os.Geteuid()
}

func removeUnlocked(dir string) {
	lock, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return // somebody has just made it, and not locked it yet
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		os.RemoveAll(dir)
	}
}
