package diskroom

import (
	"log/slog"
	"sync/atomic"

	"github.com/kestrelmq/kestrel/segment"
)

const (
	// The reserve of the disk is a twentieth of it, at least minReserve, but no more than a tenth.
	reserveShare    = 20
	maxReserveShare = 10
	minReserve      = 1 << 30 // bytes
)

// space is a file system that knows how much room it has; segment.OS does.
type space interface {
	// Space returns how many bytes of the disk that dir is on are free, and how many there are.
	Space(dir string) (free, total int64, err error)
}

// Room is what there is to know of a disk. One goroutine at a time measures it; any may ask.
type Room struct {
	Least int64       // the reserve in bytes; zero: a part of the disk
	Low   atomic.Bool // the disk has less room than its reserve

	free atomic.Int64 // bytes when it was measured last, and one more; zero: it was not
	size atomic.Int64 // bytes; zero as long as it is not known
}

// Measure measures the disk that dir is on. It sets Low when there is less room than the reserve, and resets it when
// there is an eighth more. It returns how many bytes are free; ok is false if the file system does not know, or with an
// error.
func (r *Room) Measure(fsys segment.FS, dir string, log *slog.Logger) (free int64, ok bool, err error) {
	disk, ok := fsys.(space)
	if !ok {
		return 0, false, nil
	}
	free, total, err := disk.Space(dir)
	if err != nil {
		return 0, false, err
	}
	r.size.Store(total)
	r.free.Store(free + 1)
	reserve := r.Reserve()
	switch low := r.Low.Load(); {
	case !low && free < reserve:
		r.Low.Store(true)
		log.Warn("disk has less room than its reserve: puts are refused",
			"free_bytes", free, "reserve_bytes", reserve)
	case low && free >= reserve+reserve/8:
		r.Low.Store(false)
		log.Info("disk has room again: puts are accepted", "free_bytes", free)
	}
	return free, true, nil
}

// Free is how many bytes were free when the disk was measured last; -1 if it was not.
func (r *Room) Free() int64 { return r.free.Load() - 1 }

// Size is how many bytes the disk has; 0 if that is not known.
func (r *Room) Size() int64 { return r.size.Load() }

// Reserve is how many bytes of the disk stay free.
func (r *Room) Reserve() int64 {
	if r.Least > 0 {
		return r.Least
	}
	total := r.Size()
	return min(max(total/reserveShare, minReserve), total/maxReserveShare)
}
