package segment

import "path"

// List returns the number and the size of every segment of the log in dir, oldest first. It reads none of them, so
// Base and End are zero. A segment that is missing between others is a *CorruptionError; the error of a directory
// that does not exist wraps fs.ErrNotExist.
func List(fsys FS, dir string) ([]Segment, error) {
	names, err := listLog(fsys, dir)
	if err != nil {
		return nil, err
	}
	var found []Segment
	for _, number := range names.segments {
		name := path.Join(dir, fileName(number, segmentExt))
		size, err := sizeOf(fsys, name)
		if err != nil {
			return nil, err
		}
		found = append(found, Segment{Number: number, Size: size, path: name})
	}
	return found, nil
}

func sizeOf(fsys FS, name string) (int64, error) {
	f, err := fsys.OpenReadOnly(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.Size()
}
