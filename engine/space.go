package engine

const (
	// The reserve of the disk is a twentieth of it, at least minReserve, but no more than a tenth.
	reserveShare    = 20
	maxReserveShare = 10
	minReserve      = 1 << 30 // bytes
)

// diskSpace is a file system that knows how much room it has; segment.OS does.
type diskSpace interface {
	// Space returns how many bytes of the disk that dir is on are free, and how many there are.
	Space(dir string) (free, total int64, err error)
}

// measureDisk refuses puts while the disk has less room than the reserve, and takes them again when
// it has an eighth more. What gets and confirms write fits into the reserve.
func (e *Engine) measureDisk() {
	disk, ok := e.spool.fs.(diskSpace)
	if !ok {
		return
	}
	free, total, err := disk.Space(e.opts.Dir)
	if err != nil {
		e.report("measure disk", err)
		return
	}
	e.spool.diskSize.Store(total)
	e.diskFree.Store(free + 1)
	reserve := e.reserve(total)
	switch low := e.lowDisk.Load(); {
	case !low && free < reserve:
		e.lowDisk.Store(true)
		e.log.Warn("disk has less room than its reserve: puts are refused",
			"free_bytes", free, "reserve_bytes", reserve)
	case low && free >= reserve+reserve/8:
		e.lowDisk.Store(false)
		e.log.Info("disk has room again: puts are accepted", "free_bytes", free)
	}
}

// reserve is how many bytes puts leave free of a disk of total bytes.
func (e *Engine) reserve(total int64) int64 {
	if e.opts.DiskReserve > 0 {
		return e.opts.DiskReserve
	}
	return min(max(total/reserveShare, minReserve), total/maxReserveShare)
}
