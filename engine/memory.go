package engine

// Reserve counts n bytes that the caller is about to take against the engine's memory limit, or
// returns ErrOutOfMemory. Release gives them back. Event loops account for their buffers so: there is
// one ledger for items, open reads and connections.
func (e *Engine) Reserve(n int64) error {
	if e.memory.Add(n) > e.opts.MemoryLimit {
		e.memory.Add(-n)
		return ErrOutOfMemory
	}
	return nil
}

// Release gives back what Reserve counted.
func (e *Engine) Release(n int64) { e.memory.Add(-n) }

// memoryShort reports whether so much memory is in use that queues in read-behind read back only
// what somebody asks for.
func (e *Engine) memoryShort() bool { return e.memory.Load() > e.opts.MemoryLimit/2 }
