package segment

// writeOutPiece is how many bytes of the log WriteOut gives to the disk at a time. To give it whole
// segments takes a processor for a millisecond, and if there is one only, from all that would run.
const writeOutPiece = 256 << 10

// maxWriteOuts is how often WriteOut goes after what was appended while it waited for the disk.
const maxWriteOuts = 4

// WriteOut brings to the disk what was appended and not synced, a little at a time, where the file
// system can. Nothing is durable by that, but a Sync that follows has little to do. Call it from a
// background goroutine before a Sync that nobody waits for; one that somebody waits for need not
// wait for all of it. After an error the log is poisoned, as after one of Sync.
func (l *Log) WriteOut() error {
	done := l.Watermark()
	for range maxWriteOuts {
		l.mu.Lock()
		err, end := l.usable(), l.tail.position()
		l.mu.Unlock()
		if err != nil || end-done < writeOutPiece {
			return err
		}
		if err := l.writeOut(end); err != nil {
			return err
		}
		done = end
	}
	return nil
}

// writeOut brings what lies before end to the disk.
func (l *Log) writeOut(end Position) error {
	for {
		if more, err := l.writeOutNext(end); !more || err != nil {
			return err
		}
	}
}

// writeOutNext brings the next piece of what lies before end to the disk. It reports whether there
// may be more.
func (l *Log) writeOutNext(end Position) (more bool, err error) {
	l.syncMu.Lock() // nobody closes the file meanwhile
	defer l.syncMu.Unlock()
	s, from, n, err := l.toWriteOut(end)
	if n == 0 || err != nil {
		return false, err
	}
	if err := s.failed("write out", s.file.WriteOut(from, n)); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		_, err = l.synced(0, 0, err)
		return false, err
	}
	l.writtenOut += Position(n)
	return true, nil
}

// toWriteOut returns the next piece: n bytes of a segment; none if all before end is on its way. The
// caller holds syncMu.
func (l *Log) toWriteOut(end Position) (of *segmentFile, from, n int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return nil, 0, 0, err
	}
	l.writtenOut = max(l.writtenOut, l.Watermark())
	if l.writtenOut >= end {
		return nil, 0, 0, nil
	}
	s := l.tail
	for _, sealed := range l.unsynced {
		if l.writtenOut < sealed.position() {
			s = sealed
			break
		}
	}
	from = int64(l.writtenOut - s.base)
	return s, from, min(s.end-from, writeOutPiece-from%writeOutPiece), nil
}
