package engine

import (
	"bytes"
	"os"
	"strconv"
)

// Account counts n bytes against the engine's memory limit that the caller has taken, or given back
// if n is negative. Event loops account for the buffers of their clients so: there is one ledger
// for items, open reads and connections. What is taken is taken; it is the puts that come later
// that are refused.
func (e *Engine) Account(n int64) { e.memory.Add(n) }

// MemoryLimit is how many bytes items, open reads and what is accounted for may take.
func (e *Engine) MemoryLimit() int64 { return e.opts.MemoryLimit }

// MemoryLeft is how many bytes are left of the memory limit; it may be negative.
func (e *Engine) MemoryLeft() int64 { return e.opts.MemoryLimit - e.memory.Load() }

// DefaultMemoryLimit is a quarter of the memory of the machine, or of the control groups that the
// process is in if they allow less, but at least 16 MiB; 1 GiB if neither can be read.
func DefaultMemoryLimit() int64 {
	memory := int64(4 << 30)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if fields := bytes.Fields(text); len(fields) > 1 && string(fields[0]) == "MemTotal:" {
			if n, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
				memory = n << 10
			}
		}
	}
	return max(min(memory, groupMemory(os.DirFS("/")))/4, 16<<20)
}

// memoryPressing reports whether so much memory is in use that queues must spill what they hold.
func (e *Engine) memoryPressing() bool { return e.memory.Load() > e.opts.MemoryLimit/4*3 }

// memoryShort reports whether so much memory is in use that queues in read-behind read back only
// what somebody asks for.
func (e *Engine) memoryShort() bool { return e.memory.Load() > e.opts.MemoryLimit/2 }
