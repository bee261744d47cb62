package engine

// Health says whether the engine takes puts.
type Health struct {
	// DiskFull says that the disk has no room for the journal to grow, or less than its reserve:
	// puts are refused, or will be when what room is left is used up.
	DiskFull bool
	// JournalError is why the last write or sync of the journal failed, and puts are refused; nil
	// if it did not. With ErrOutOfDisk it ends by itself when there is room.
	JournalError error
}

// Health describes the engine. It takes no lock.
func (e *Engine) Health() Health {
	defer contain()
	return Health{
		DiskFull: e.journal.Full() || e.lowDisk.Load(), JournalError: e.journal.Failure(),
	}
}

// report logs an error of background work.
func (e *Engine) report(what string, err error) {
	if err != nil && !e.closed.Load() {
		e.log.Error(what, "err", err)
	}
}
