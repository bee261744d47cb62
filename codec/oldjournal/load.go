package oldjournal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// LoadOptions say how to load a queue.
type LoadOptions struct {
	// Salvage goes on behind damage as the original did: the rest of the broken file is left out.
	// What its records removed comes back, and later removes may take other items than they meant.
	Salvage bool
}

// Queue is what the files of a queue hold.
type Queue struct {
	Files
	Items    []Item  // oldest first
	Bytes    int64   // of their data
	Records  int64   // replayed
	Returned int     // of Items: reads that were open, back at the head
	Torn     *Break  // the end of the last file that has one; nil if it ends with a record
	Damaged  []Break // places that Salvage went over
}

// Load replays the files of a queue, which it finds in fsys, and changes nothing. It returns a
// *DamageError if they are damaged, and errors of fsys. Of an item it keeps 40 bytes.
func Load(fsys fs.FS, files Files, opts LoadOptions) (*Queue, error) {
	q := &Queue{Files: files}
	var r Replay
	for i, name := range files.Names {
		broken, err := q.replay(&r, fsys, name, i)
		if err != nil {
			return nil, err
		}
		switch {
		case broken == nil:
			continue
		case broken.Torn:
			last, err := allEmpty(fsys, files.Names[i+1:])
			if err != nil {
				return nil, err
			}
			if last {
				q.Torn = &broken.Break
				continue
			}
			broken.Reason += ", and another file follows"
		}
		if !opts.Salvage {
			return nil, &DamageError{broken.Break}
		}
		q.Damaged = append(q.Damaged, broken.Break)
	}
	q.Items = r.Items()
	q.Returned = r.Returned
	for _, it := range q.Items {
		q.Bytes += int64(it.Size)
	}
	return q, nil
}

// replay replays one file as far as it can be read.
func (q *Queue) replay(r *Replay, fsys fs.FS, name string, index int) (*BreakError, error) {
	file, size, err := openAt(fsys, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var (
		e      Entry
		broken *BreakError
	)
	for s := NewScanner(file, name, size); ; {
		switch err := s.Next(&e); {
		case err == io.EOF:
			return nil, nil
		case errors.As(err, &broken):
			return broken, nil
		case err != nil:
			return nil, err
		}
		r.Apply(&e, index)
		q.Records++
	}
}

// file is a file that is read at any place.
type file interface {
	fs.File
	io.ReaderAt
}

func openAt(fsys fs.FS, name string) (file, int64, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	at, ok := f.(file)
	if !ok {
		f.Close()
		return nil, 0, fmt.Errorf("open %s: cannot read at an offset", name)
	}
	return at, info.Size(), nil
}

func allEmpty(fsys fs.FS, names []string) (bool, error) {
	for _, name := range names {
		info, err := fs.Stat(fsys, name)
		if err != nil || info.Size() > 0 {
			return false, err
		}
	}
	return true, nil
}

// Bodies reads the data of a loaded queue's items. It keeps one file open: read items in order.
type Bodies struct {
	fsys  fs.FS
	queue *Queue
	file  file // nil if none is open
	index int32
}

// Bodies returns a reader of the items' data. Close it.
func (q *Queue) Bodies(fsys fs.FS) *Bodies { return &Bodies{fsys: fsys, queue: q} }

// Append appends the data of it, one of the queue's items, to dst. It returns an error of the file,
// io.ErrUnexpectedEOF if that has become shorter.
func (b *Bodies) Append(dst []byte, it Item) ([]byte, error) {
	name := b.queue.Names[it.File]
	if b.file == nil || b.index != it.File {
		if err := b.Close(); err != nil {
			return dst, err
		}
		f, _, err := openAt(b.fsys, name)
		if err != nil {
			return dst, err
		}
		b.file, b.index = f, it.File
	}
	n := len(dst)
	dst = append(dst, make([]byte, it.Size)...)
	read, err := b.file.ReadAt(dst[n:], it.Offset)
	if read == int(it.Size) {
		return dst, nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return dst[:n], unreadable(name, err)
}

// Close closes the file that is open, if one is.
func (b *Bodies) Close() error {
	if b.file == nil {
		return nil
	}
	err := b.file.Close()
	b.file = nil
	return err
}
