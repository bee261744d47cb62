package segmenttest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// nameTable prints which inode each name of a directory has.
func nameTable(entries map[string]*inode) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		fmt.Fprintf(&b, "%s=%d ", name, entries[name].id)
	}
	return b.String()
}

// namesRun makes random changes of names in one directory, or in two.
type namesRun struct {
	fs    *FS
	names []string
	since []string // the root's name table after each operation since the last SyncDir, and before

	everywhere map[string]map[uint64]bool // inodes each name ever had
}

func (r *namesRun) step(t *rapid.T) {
	name := rapid.SampledFrom(r.names).Draw(t, "name")
	switch rapid.SampledFrom([]string{"create", "rename", "remove"}).Draw(t, "operation") {
	case "create":
		if h, err := r.fs.Create(name); err == nil {
			check(t, h.Close())
		}
	case "rename":
		_ = r.fs.Rename(name, rapid.SampledFrom(r.names).Draw(t, "to")) // may not exist
	case "remove":
		_ = r.fs.Remove(name) // may not exist
	}
	for _, name := range r.names {
		if n, err := r.fs.findNode(name); err == nil {
			if r.everywhere[name] == nil {
				r.everywhere[name] = make(map[uint64]bool)
			}
			r.everywhere[name][n.id] = true
		}
	}
	r.since = append(r.since, nameTable(r.fs.root.entries))
}

func (r *namesRun) syncDir(t *rapid.T) {
	check(t, r.fs.SyncDir("/"))
	r.since = r.since[len(r.since)-1:]
}

// checkSane checks that in an image no file has two names or one that it never had.
func (r *namesRun) checkSane(t *rapid.T, what string, image *FS) {
	seen := make(map[uint64]string)
	for _, path := range image.Paths() {
		n, err := image.findNode(path)
		check(t, err)
		if other, ok := seen[n.id]; ok || !r.everywhere[path][n.id] {
			t.Fatalf("%s: inode %d is under %s and %q", what, n.id, path, other)
		}
		seen[n.id] = path
	}
}

func TestPowerCutNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &namesRun{fs: New(), names: []string{"a", "b", "c", "d"}, since: []string{""},
			everywhere: map[string]map[uint64]bool{}}
		t.Repeat(map[string]func(*rapid.T){
			"step": r.step, "step again": r.step, "sync": r.syncDir,
			"": func(t *rapid.T) {
				opts := CutOptions{Seed: rapid.Uint64().Draw(t, "seed")}
				got := nameTable(r.fs.PowerCut(opts).root.entries)
				if !slices.Contains(r.since, got) {
					t.Fatalf("%+v leaves %q, want one of %q", opts, got, r.since)
				}
				if got := nameTable(r.fs.PowerCut(lose).root.entries); got != r.since[0] {
					t.Fatalf("Lose leaves %q, want %q", got, r.since[0])
				}
				if killed := nameTable(r.fs.Kill().PowerCut(opts).root.entries); killed != got {
					t.Fatalf("%+v: power cut after kill leaves %q, want %q", opts, killed, got)
				}
				opts.ReorderMetadata = true
				r.checkSane(t, fmt.Sprintf("%+v", opts), r.fs.PowerCut(opts))
			},
		})
	})
}

func TestPowerCutNamesOfTwoDirectories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &namesRun{fs: New(), names: []string{"a/x", "a/y", "b/x", "b/y"}, since: []string{""},
			everywhere: map[string]map[uint64]bool{}}
		check(t, r.fs.MkdirAll("a"))
		check(t, r.fs.MkdirAll("b"))
		t.Repeat(map[string]func(*rapid.T){
			"step": r.step, "step again": r.step,
			"sync both": func(t *rapid.T) {
				check(t, r.fs.SyncDir("a"))
				check(t, r.fs.SyncDir("b"))
				got, want := dump(t, r.fs.PowerCut(lose)), dump(t, r.fs)
				if !maps.Equal(got, want) {
					t.Fatalf("after SyncDir, Lose leaves %s, want %s", show(got), show(want))
				}
				if len(r.fs.ops) != 0 {
					t.Fatalf("after SyncDir, %d operations are pending, want 0", len(r.fs.ops))
				}
			},
			"": func(t *rapid.T) {
				opts := CutOptions{Seed: rapid.Uint64().Draw(t, "seed")}
				r.checkSane(t, fmt.Sprintf("%+v", opts), r.fs.PowerCut(opts))
				opts.ReorderMetadata = true
				r.checkSane(t, fmt.Sprintf("%+v", opts), r.fs.PowerCut(opts))
			},
		})
	})
}
