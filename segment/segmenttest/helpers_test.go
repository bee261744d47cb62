package segmenttest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
)

// tb is what the helpers need of a *testing.T or a *rapid.T.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

func check(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

func create(t tb, f *FS, path string) segment.File {
	t.Helper()
	h, err := f.Create(path)
	check(t, err)
	return h
}

func write(t tb, h segment.File, data string, off int64) {
	t.Helper()
	n, err := h.WriteAt([]byte(data), off)
	if n != len(data) || err != nil {
		t.Fatalf("WriteAt(%d bytes, %d) = %d, %v, want all", len(data), off, n, err)
	}
}

// put makes a file with durable bytes and a durable name, closed.
func put(t tb, f *FS, path, data string) {
	t.Helper()
	check(t, f.WriteFile(path, []byte(data)))
}

// dump returns the contents of all files by path.
func dump(t tb, f *FS) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, path := range f.Paths() {
		data, err := f.Bytes(path)
		check(t, err)
		files[path] = string(data)
	}
	return files
}

// show prints a dump with long runs shortened.
func show(files map[string]string) string {
	var b bytes.Buffer
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, " %s=%d:%.40q", path, len(files[path]), files[path])
	}
	return "{" + b.String() + " }"
}

// wantFiles checks that an image has these files and no others.
func wantFiles(t tb, what string, f *FS, want map[string]string) {
	t.Helper()
	if got := dump(t, f); !maps.Equal(got, want) {
		t.Errorf("%s: files %s, want %s", what, show(got), show(want))
	}
}

// seeds is how many power cuts a test of random survival looks at.
const seeds = 400

// outcomes returns what the seeds lead to, and the first seed that led to it.
func outcomes(f *FS, opts CutOptions, outcome func(image *FS) string) map[string]uint64 {
	first := make(map[string]uint64)
	for seed := range uint64(seeds) {
		opts.Seed = seed
		got := outcome(f.PowerCut(opts))
		if _, ok := first[got]; !ok {
			first[got] = seed
		}
	}
	return first
}

// wantOutcomes checks that some seed leads to each outcome named and none to another.
func wantOutcomes(t *testing.T, got map[string]uint64, want ...string) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(got))
	slices.Sort(want)
	if !slices.Equal(keys, want) {
		t.Errorf("of seeds 0 to %d, outcomes (with first seed) are %v, want exactly %q",
			seeds-1, got, want)
	}
}

// contents returns an outcome function: the named files' contents, "-" for a missing one.
func contents(paths ...string) func(*FS) string {
	return func(f *FS) string {
		var b bytes.Buffer
		for i, path := range paths {
			if i > 0 {
				b.WriteByte(' ')
			}
			data, err := f.Bytes(path)
			if err != nil {
				data = []byte("-")
			}
			b.Write(data)
		}
		return b.String()
	}
}
