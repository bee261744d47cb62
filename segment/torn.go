package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// saveTorn copies what lies behind the end of the log in its last segment to a file of its own. The
// copy is durable before anything is cut.
func (l *Log) saveTorn(s *scan, report *Recovery) error {
	last := s.segments[len(s.segments)-1]
	r, err := openReader(l.fs, last.path, last.Number, s.buf)
	if err != nil {
		return err
	}
	defer r.file.Close()
	end := last.behind.end
	if last.behind.frames == 0 {
		// Its header is torn, so nothing says how long the frame was. In a file that was used
		// before, old bytes are copied along.
		end, err = r.lastNonZero(last.end)
	}
	if err != nil || end == last.end {
		return err
	}
	dst, name, err := l.createTorn(last.Number)
	if err != nil {
		return fmt.Errorf("save torn tail: %w", err)
	}
	defer dst.Close()
	if err := copyRange(dst, r, last.end, end); err != nil {
		l.fs.Remove(name) // or a full disk would see one more at every start
		return fmt.Errorf("save torn tail: %w", err)
	}
	report.TornBytes += end - last.end
	report.Saved = append(report.Saved, name)
	return l.fs.SyncDir(l.dir)
}

// copyRange makes dst durably hold the bytes [from, to) of r.
func copyRange(dst File, r *segmentReader, from, to int64) error {
	for off := from; off < to; {
		block, err := r.at(off, int(min(to-off, scanSize)))
		if err != nil {
			return err
		}
		if _, err := dst.WriteAt(block, off-from); err != nil {
			return err
		}
		off += int64(len(block))
	}
	return dst.Datasync()
}

// createTorn creates the file for what is cut from a segment under the first name that is free.
func (l *Log) createTorn(number uint64) (File, string, error) {
	for i := 1; ; i++ {
		name := l.path(number, tornExt)
		if i > 1 {
			name = fmt.Sprintf("%s.%d", name, i)
		}
		f, err := l.fs.Create(name)
		if !errors.Is(err, fs.ErrExist) {
			return f, name, err
		}
	}
}

// removeBeyond takes segments behind the end of the log out of it, last first, so that a crash
// meanwhile leaves the others consecutive. Those in which there is something of the caller's are
// kept.
func (l *Log) removeBeyond(beyond []scanned, report *Recovery) error {
	for _, seg := range slices.Backward(beyond) {
		if seg.behind.batches == 0 {
			if err := l.unlink(seg.path); err != nil {
				return err
			}
			continue
		}
		placeholder, name, err := l.createTorn(seg.Number)
		if err != nil {
			return err
		}
		placeholder.Close()
		if err := l.rename(seg.path, name); err != nil {
			return err
		}
		report.TornBytes += seg.behind.end - seg.end
		report.Saved = append(report.Saved, name)
	}
	return nil
}
