package segment

// Map implements [Mapper]: files are not mapped on macOS.
func (f osFile) Map(int64, int) ([]byte, error) { return nil, errNoMap }

// Unmap implements [Mapper].
func (f osFile) Unmap([]byte, int64) error { return nil }
