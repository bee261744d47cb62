package segment

import "errors"

// CopyFile makes to, which must not exist, a durable copy of from; its name is durable after
// SyncDir. If it fails there is no file of that name, unless there was one.
func CopyFile(fsys FS, from, to string) error {
	src, err := fsys.OpenReadOnly(from)
	if err != nil {
		return err
	}
	defer src.Close()
	size, err := src.Size()
	if err != nil {
		return err
	}
	dst, err := fsys.Create(to)
	if err != nil {
		return err
	}
	r := &segmentReader{file: src, path: from, size: size}
	end, err := r.lastNonZero(0)
	if err == nil {
		err = dst.Truncate(size) // most of a segment is a hole
	}
	if err == nil {
		err = copyRange(dst, r, 0, end)
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return errors.Join(err, fsys.Remove(to))
	}
	return nil
}
