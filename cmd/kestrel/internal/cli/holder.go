package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Holder says which process holds the lock of a data directory, as in "another server (process 7)". It is vague where the
// operating system does not say: only Linux does, and only of processes in the same container.
func Holder(dir string) string {
	return cmp.Or(holderOf(dir), "another process, a server or a command")
}

func holderOf(dir string) string {
	var lock unix.Stat_t
	if unix.Stat(filepath.Join(dir, "LOCK"), &lock) != nil {
		return ""
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return ""
	}
	device := uint64(lock.Dev)
	pid := lockedBy(string(locks), fmt.Sprintf("%02x:%02x:%d", unix.Major(device), unix.Minor(device), lock.Ino))
	switch pid {
	case 0:
		return ""
	case os.Getpid():
		return "this command itself"
	}
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return ""
	}
	var args []string
	for arg := range bytes.SplitSeq(bytes.TrimSuffix(line, []byte{0}), []byte{0}) {
		args = append(args, string(arg))
	}
	return fmt.Sprintf("%s (process %d)", programOf(args), pid)
}

// lockedBy returns the process that locks a file as a whole, by the lines of /proc/locks; 0 if none does.
func lockedBy(locks, file string) int {
	for line := range strings.Lines(locks) {
		// 1: FLOCK  ADVISORY  WRITE 14217 fe:00:10004627 0 EOF
		if f := strings.Fields(line); len(f) == 8 && f[1] == "FLOCK" && f[5] == file {
			pid, _ := strconv.Atoi(f[4])
			return pid
		}
	}
	return 0
}

// programOf words who runs a command line: a server, a command of kestrel, or another program with an engine in it. It
// leaves options and their values out.
func programOf(args []string) string {
	name := filepath.Base(args[0])
	if name != "kestrel" {
		return fmt.Sprintf("another program, %q", name)
	}
	words := args[1:]
	for i, word := range words {
		if i == 2 || strings.HasPrefix(word, "-") {
			words = words[:i]
			break
		}
	}
	switch {
	case len(words) == 0 || words[0] == "serve":
		return "another server"
	case words[0] != "journal" && words[0] != "burrow":
		words = words[:1]
	}
	return "the command 'kestrel " + strings.Join(words, " ") + "'"
}
