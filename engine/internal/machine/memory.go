package machine

import (
	"bytes"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// unknownMemory is what a machine has whose memory cannot be read.
const unknownMemory = 4 << 30

// Memory is how many bytes of memory the machine has, or the control groups that the process is in if they allow less.
// root is the file system of the machine. It is 4 GiB if neither can be read.
func Memory(root fs.FS) int64 {
	memory := int64(unknownMemory)
	if text, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		if fields := bytes.Fields(text); len(fields) > 1 && string(fields[0]) == "MemTotal:" {
			if n, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
				memory = n << 10
			}
		}
	}
	return min(memory, groupMemory(root))
}

// groupMemory is how many bytes of memory the control groups of the process allow, or math.MaxInt64. root is the file
// system of the machine. A group is bound by what those above it allow, too. Both versions of control groups are
// looked at, as cgroups(7) describes them.
func groupMemory(root fs.FS) int64 {
	limit := int64(math.MaxInt64)
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return limit
	}
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(fields) < 3 {
			continue
		}
		var dir, file string
		switch {
		case fields[1] == "":
			dir, file = "sys/fs/cgroup", "memory.max"
		case strings.Contains(","+fields[1]+",", ",memory,"):
			dir, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			limit = min(limit, readLimit(root, path.Join(dir, group, file)))
			if group == "/" {
				break
			}
		}
	}
	return limit
}

// readLimit reads a file that holds a number of bytes, or "max".
func readLimit(root fs.FS, name string) int64 {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}
