package figures

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

const unknown = "unknown"

// ThisMachine asks the system.
func ThisMachine() Machine {
	m := Machine{CPU: unknown, Cores: runtime.NumCPU(), Kernel: unknown}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = cpuModel(string(b))
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	m.MemoryBytes = memorySize()
	return m
}

// FileName names the kind of machine, as it can stand in the name of a file.
func (m Machine) FileName() string {
	words := strings.FieldsFunc(strings.ToLower(m.CPU), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9')
	})
	return fmt.Sprintf("%s-%dcpu", strings.Join(words, "-"), m.Cores)
}

// String describes the machine in a few words.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d processors, %s, Linux %s", m.CPU, m.Cores, Bytes(m.MemoryBytes),
		m.Kernel)
}

// cpuModel returns the processor's name in the text of /proc/cpuinfo.
func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return unknown
}
