package segment

import (
	"fmt"
	"sync"
)

// Recovery says what Open found.
type Recovery struct {
	Segments int    // read
	Frames   uint64 // handed to the visitor
	Bytes    int64  // read, headers included
	Tear     *Tear  // where the log was torn; nil if it ended cleanly
	// TornBytes is how many bytes were cut, and Saved the files that now hold them.
	TornBytes int64
	Saved     []string
}

// Open opens the log in dir, which it makes if it is missing. It calls visit for every frame that
// carries the caller's bytes, oldest first. When Open returns, all of those frames are durable, and
// Append goes on behind them.
//
// A torn tail is copied aside, cut, and reported in Recovery. Damage is a *CorruptionError and
// leaves everything as it is, as does an error of visit or Options.Accept. Nothing keeps two
// processes from opening one log: the caller holds a lock.
func Open(dir string, opts Options, visit Visitor) (*Log, Recovery, error) {
	opts = opts.withDefaults()
	accept := opts.Accept
	opts.Accept = nil // the log lives for long, and what this refers to need not
	l := &Log{dir: dir, opts: opts, fs: opts.FS, oftenSynced: true}
	l.prepared = sync.NewCond(&l.mu)
	s := &scan{fs: opts.FS, dir: dir, visit: visit}
	if err := opts.FS.MkdirAll(dir); err != nil {
		return nil, Recovery{}, fmt.Errorf("open log: %w", err)
	}
	names, err := listLog(opts.FS, dir)
	if err == nil {
		err = s.all(names.segments)
	}
	if err == nil && accept != nil {
		err = accept()
	}
	if err != nil {
		return nil, Recovery{}, fmt.Errorf("open log: %w", err)
	}
	report := Recovery{Segments: len(s.segments), Frames: s.frames, Bytes: s.bytes, Tear: s.tear}
	if err := l.recover(s, names, &report); err != nil {
		return nil, report, fmt.Errorf("recover log %s: %w", dir, err)
	}
	return l, report, nil
}

// recover makes what the scan found the log's durable state and opens a new tail behind it. A crash
// in the middle leaves a log that the next Open makes the same of.
func (l *Log) recover(s *scan, names listing, report *Recovery) error {
	// The process before may have died between a change of a name and its sync. A spare whose old
	// name can still come back must not be used, nor may a gap come about (S6).
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	l.clearLeftovers(names)
	if s.tear != nil {
		if err := l.saveTorn(s, report); err != nil {
			return err
		}
	}
	if err := l.eraseMark(s); err != nil {
		return err
	}
	if err := l.removeBeyond(s.beyond, report); err != nil {
		return err
	}
	number, prev, before := uint64(1), link{}, (*scanned)(nil)
	for i, seg := range s.segments {
		if i == len(s.segments)-1 && !seg.sealed && seg.frames <= 1 {
			// Nothing but a link: the new tail takes its place.
			number = seg.Number
			if i == 0 {
				prev = seg.prev
			}
			break
		}
		if err := l.adopt(&seg, s.watermark); err != nil {
			return fmt.Errorf("seal segment %d: %w", seg.Number, err)
		}
		number, prev = seg.Number+1, link{seg.Number, seg.id, seg.End, seg.chain}
		before = &seg
	}
	if err := l.start(number, prev); err != nil {
		return err
	}
	if before != nil && !before.followed {
		l.noteFollowed(before)
	}
	return nil
}

// noteFollowed has a segment of an earlier process say that the new tail follows it. All that is in the segment is
// durable. Without the note a start would not notice if the tail were missing, so no start fails because of it.
func (l *Log) noteFollowed(seg *scanned) {
	f, err := l.fs.Open(seg.path)
	if err != nil {
		return
	}
	defer f.Close()
	sf := &segmentFile{file: f, path: seg.path, id: seg.id, base: seg.Base, extent: seg.extent}
	if sf.noteFollowed() == nil {
		last := &l.sealed[len(l.sealed)-1]
		last.Size = max(last.Size, seg.end+FrameHeaderSize)
	}
}

// eraseMark removes a mark that is left where the trailer of the last segment is lost. The trailer that takes its place
// may be there before the zeros behind it are, and the next segment be gone by then (S9).
func (l *Log) eraseMark(s *scan) error {
	if !s.ended() || !s.segments[len(s.segments)-1].followed {
		return nil
	}
	last := &s.segments[len(s.segments)-1]
	f, err := l.fs.Open(last.path)
	if err != nil {
		return err
	}
	defer f.Close()
	sf := &segmentFile{file: f, path: last.path}
	if err := sf.writeAt(make([]byte, FrameHeaderSize), last.sealedAt()); err != nil {
		return err
	}
	last.followed = false
	return sf.datasync()
}

// adopt makes a segment of an earlier process part of the log: durable, and sealed if it was not.
func (l *Log) adopt(seg *scanned, watermark Position) error {
	if !seg.sealed || seg.End > watermark {
		f, err := l.fs.Open(seg.path)
		if err != nil {
			return err
		}
		defer f.Close()
		sf := &segmentFile{
			file: f, path: seg.path, number: seg.Number, id: seg.id, size: seg.Size, base: seg.Base,
			extent: seg.extent, sealed: seg.sealed,
		}
		doubtful := int64(segmentHeaderSize)
		if watermark > seg.Base {
			doubtful = max(doubtful, min(int64(watermark-seg.Base), seg.end))
		}
		if err := sf.rewrite(doubtful); err != nil {
			return err
		}
		if err := sf.datasync(); err != nil {
			return err
		}
		if !seg.sealed {
			if err := sf.finish(); err != nil {
				return err
			}
		}
		seg.Segment, seg.extent = sf.describe(), sf.extent
	}
	l.sealed = append(l.sealed, seg.Segment)
	return nil
}

// start makes segment number the tail, behind prev. The link is there before the name is. It may
// take the place of a segment that was the only one to say where the log stands (S6).
// Zeros would keep a log that comes back after a crash from its readers.
func (l *Log) start(number uint64, prev link) error {
	isNew := prev == link{}
	tail, err := l.makeSegment(l.planFor(number, Version1, l.opts.SegmentSize, isNew), &prev)
	if err != nil {
		return err
	}
	l.tail = tail
	l.batchEnd, l.recorded = tail.position(), tail.position()
	l.watermark.Store(uint64(tail.position()))
	return nil
}

// clearLeftovers removes segments that were never finished and spares beyond those wanted. They mean nothing: what
// cannot be removed keeps no log from its use.
func (l *Log) clearLeftovers(names listing) {
	for _, number := range names.unmade {
		l.fs.Remove(l.path(number, newExt)) // or else the next open does, or the segment that takes its name
	}
	for _, number := range names.spares {
		name := l.path(number, spareExt)
		if len(l.spares) < l.opts.Spares && l.hasSegmentSize(name) {
			l.spares = append(l.spares, name)
			continue
		}
		l.unneeded(name)
	}
}

func (l *Log) hasSegmentSize(name string) bool {
	f, err := l.fs.OpenReadOnly(name)
	if err != nil {
		return false
	}
	defer f.Close()
	size, err := f.Size()
	return err == nil && size == l.opts.SegmentSize
}
