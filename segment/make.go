package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// plan says how a segment is to be made.
type plan struct {
	number   uint64
	version  Version
	size     int64  // bytes
	spare    string // path of the file to use, which has that size; "" for a new one
	zeroFill bool   // write a new file over once, so that no later sync converts reserved blocks
}

// planFor takes a spare for segment number if there is one of that size. The caller holds mu.
func (l *Log) planFor(number uint64, version Version, size int64, zeroFill bool) plan {
	p := plan{number: number, version: version, size: size, zeroFill: zeroFill}
	if n := len(l.spares); n > 0 && size == l.opts.SegmentSize {
		p.spare, l.spares = l.spares[n-1], l.spares[:n-1]
		l.idleSpares = min(l.idleSpares, n-1)
	}
	return p
}

// makeSegment makes a file with the header of a segment, and with its link if prev is not nil, and
// syncs it. Only then does it give the file its name (S1), in place of a file that has it.
func (l *Log) makeSegment(p plan, prev *link) (*segmentFile, error) {
	f, name, err := l.makeFile(p)
	if err != nil {
		return nil, err
	}
	return l.nameSegment(p, f, name, prev)
}

// nameSegment makes the file that makeFile has returned a segment. After an error, that may have its name all the same.
func (l *Log) nameSegment(p plan, f File, name string, prev *link) (_ *segmentFile, err error) {
	s := &segmentFile{
		file: f, path: l.path(p.number, segmentExt), version: p.version, number: p.number, id: l.opts.newID(), size: p.size,
	}
	if err = s.writeHeader(); err == nil && prev != nil {
		err = s.follow(*prev, prev.end)
	}
	if err == nil {
		err = f.Datasync()
	}
	if err == nil {
		err = l.rename(name, s.path)
	}
	if err != nil {
		f.Close()
		l.abandon(p, name)
		return nil, fmt.Errorf("make segment %d: %w", p.number, err)
	}
	return s, nil
}

// makeFile returns the file that is to become a segment, and the path it has till then.
func (l *Log) makeFile(p plan) (f File, name string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("make segment %d: %w", p.number, err)
		}
	}()
	if p.spare != "" {
		if f, err = l.fs.Open(p.spare); err != nil {
			l.unneeded(p.spare)
		}
		return f, p.spare, err
	}
	name = l.path(p.number, newExt)
	f, err = l.fs.Create(name)
	if errors.Is(err, fs.ErrExist) {
		if err = l.fs.Remove(name); err == nil {
			f, err = l.fs.Create(name)
		}
	}
	if err != nil {
		return nil, "", err
	}
	if err = f.Allocate(p.size); err == nil && p.zeroFill {
		err = writeZeros(f, p.size)
	}
	if err != nil {
		f.Close()
		l.abandon(p, name)
		return nil, "", err
	}
	return f, name, nil
}

func writeZeros(f File, size int64) error {
	zeros := make([]byte, min(1<<20, size))
	for off := int64(0); off < size; off += int64(len(zeros)) {
		n := min(int64(len(zeros)), size-off)
		if _, err := f.WriteAt(zeros[:n], off); err != nil {
			return err
		}
	}
	return nil
}

// rename changes a name in the log's directory and makes that durable.
func (l *Log) rename(from, to string) error {
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	if err := l.fs.Rename(from, to); err != nil {
		return err
	}
	return l.fs.SyncDir(l.dir)
}

// unlink removes a file of the log and makes that durable.
func (l *Log) unlink(name string) error {
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	if err := l.fs.Remove(name); err != nil {
		return err
	}
	return l.fs.SyncDir(l.dir)
}

// abandon removes the file of a segment that could not be made.
func (l *Log) abandon(p plan, name string) {
	if p.spare != "" {
		l.unneeded(name)
		return
	}
	l.fs.Remove(name) // if that fails too, the next try takes its place
}

// unneeded removes spares that have no use any more, or else has removeUnneeded do it.
func (l *Log) unneeded(names ...string) {
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	for _, name := range names {
		if err := l.discard(name); err != nil {
			l.unwanted = append(l.unwanted, name)
		}
	}
}

// removeUnneeded tries once more to remove what could not be removed. What never can is removed at the
// next open.
func (l *Log) removeUnneeded() (err error) {
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	l.unwanted = slices.DeleteFunc(l.unwanted, func(name string) bool {
		failed := l.discard(name)
		err = errors.Join(err, failed)
		return failed == nil
	})
	return err
}

// discard removes a spare, if it is there. Whether that is durable does not matter: a power cut brings
// back what the next open removes. The sync keeps one change of a name to each sync of the directory.
// The caller holds dirMu.
func (l *Log) discard(name string) error {
	err := l.fs.Remove(name)
	if err == nil {
		l.fs.SyncDir(l.dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
