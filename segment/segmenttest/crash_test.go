package segmenttest

import (
	"maps"
	"strings"
	"testing"
)

func TestKillKeepsEverything(t *testing.T) {
	f := New()
	put(t, f, "d/old", "old")
	h := create(t, f, "d/new")
	write(t, h, "written", 0)
	check(t, f.Rename("d/old", "d/renamed"))
	want := map[string]string{"d/new": "written", "d/renamed": "old"}
	image := f.Kill()
	wantFiles(t, "kill", image, want)

	write(t, h, "CHANGED", 0) // a handle of the old FS
	check(t, f.Remove("d/renamed"))
	wantFiles(t, "kill, after changes to the original", image, want)
	if got := image.OpenFiles(); len(got) != 0 {
		t.Errorf("OpenFiles of the image = %q, want none", got)
	}
	if got := image.Calls(OpCreate) + image.MutatingCalls(); got != 0 {
		t.Errorf("the image counts %d calls, want 0", got)
	}
}

func TestKillSyncsNothing(t *testing.T) {
	f := New()
	put(t, f, "old", "old")
	h := create(t, f, "new")
	write(t, h, "bytes", 0)
	check(t, f.Remove("old"))
	image := f.Kill()
	wantFiles(t, "kill, then power cut", image.PowerCut(CutOptions{Mode: Lose}),
		map[string]string{"old": "old"})

	h, err := image.Open("new")
	check(t, err)
	check(t, h.Datasync()) // covers what the dead process wrote
	check(t, image.SyncDir("/"))
	wantFiles(t, "kill, sync, power cut", image.PowerCut(CutOptions{Mode: Lose}),
		map[string]string{"new": "bytes"})
}

func TestDatasync(t *testing.T) {
	f := New()
	h := create(t, f, "f")
	check(t, f.SyncDir("/"))
	write(t, h, "durable", 0)
	check(t, h.Allocate(10))
	check(t, h.Datasync())
	write(t, h, "LOST", 0)
	check(t, h.Truncate(4))
	lose := f.PowerCut(CutOptions{Mode: Lose})
	wantFiles(t, "lose", lose, map[string]string{"f": "durable\x00\x00\x00"})
	keep := f.PowerCut(CutOptions{Mode: Keep})
	wantFiles(t, "keep", keep, map[string]string{"f": "LOST"})
	wantFiles(t, "keep, then lose", keep.PowerCut(CutOptions{Mode: Lose}),
		map[string]string{"f": "LOST"}) // what a boot finds is durable
}

func TestUnsyncedLengthIsLost(t *testing.T) {
	f := New()
	h := create(t, f, "f")
	check(t, f.SyncDir("/"))
	check(t, h.Allocate(100))
	wantFiles(t, "allocate", f.PowerCut(CutOptions{Mode: Lose}), map[string]string{"f": ""})
	check(t, h.Datasync())
	check(t, h.Truncate(1))
	got, err := f.PowerCut(CutOptions{Mode: Lose}).Bytes("f")
	if err != nil || len(got) != 100 {
		t.Errorf("unsynced Truncate after power cut: %d bytes, %v, want 100", len(got), err)
	}
}

func TestDatasyncCoversOtherHandles(t *testing.T) {
	f := New()
	h := create(t, f, "f")
	check(t, f.SyncDir("/"))
	write(t, h, "bytes", 0)
	check(t, h.Close())
	ro, err := f.OpenReadOnly("f")
	check(t, err)
	check(t, ro.Datasync())
	wantFiles(t, "sync of another handle", f.PowerCut(CutOptions{Mode: Lose}),
		map[string]string{"f": "bytes"})
}

func TestImagesAreIndependent(t *testing.T) {
	f := New()
	put(t, f, "f", strings.Repeat("a", 2*pageSize))
	h, err := f.Open("f")
	check(t, err)
	before := dump(t, f)
	images := map[string]*FS{
		"kill": f.Kill(), "lose": f.PowerCut(CutOptions{Mode: Lose}),
		"keep": f.PowerCut(CutOptions{Mode: Keep}), "tear": f.PowerCut(CutOptions{}),
	}
	for name, image := range images {
		other, err := image.Open("f")
		check(t, err)
		write(t, other, name, 10)
		check(t, other.Datasync())
	}
	wantFiles(t, "original", f, before)
	write(t, h, "original", 10)
	check(t, h.Truncate(20))
	for name, image := range images {
		want := "aaaaaaaaaa" + name + strings.Repeat("a", 2*pageSize-14)
		wantFiles(t, name, image, map[string]string{"f": want})
	}
}

func TestTearIsDeterministic(t *testing.T) {
	build := func() *FS {
		f := New()
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			write(t, create(t, f, name), strings.Repeat(name, 3000), 700)
		}
		return f
	}
	f, g := build(), build()
	different := false
	var last map[string]string
	for seed := range uint64(50) {
		opts := CutOptions{Seed: seed, ReorderMetadata: seed%2 == 1}
		one, two := dump(t, f.PowerCut(opts)), dump(t, f.PowerCut(opts))
		other := dump(t, g.PowerCut(opts))
		if !maps.Equal(one, two) || !maps.Equal(one, other) {
			t.Errorf("%+v: images %s, %s, %s, want the same",
				opts, show(one), show(two), show(other))
		}
		different = different || last != nil && !maps.Equal(last, one)
		last = one
	}
	if !different {
		t.Errorf("seeds 0 to 49 all leave %s", show(last))
	}
}

// sectors returns, per sector of the file f, the letter it is full of, "0" for zeros, "?" for a
// mix.
func sectors(f *FS) string {
	data, err := f.Bytes("f")
	if err != nil {
		return "-"
	}
	var b strings.Builder
	for ; len(data) > 0; data = data[min(len(data), sectorSize):] {
		part := data[:min(len(data), sectorSize)]
		switch {
		case strings.Trim(string(part), string(part[:1])) != "":
			b.WriteByte('?')
		case part[0] == 0:
			b.WriteByte('0')
		default:
			b.WriteByte(part[0])
		}
	}
	return b.String()
}

func TestTornWrite(t *testing.T) { // every combination of old and new sectors, and no other
	f := New()
	put(t, f, "f", strings.Repeat("a", 3*sectorSize))
	h, err := f.Open("f")
	check(t, err)
	write(t, h, strings.Repeat("b", 3*sectorSize), 0)
	wantOutcomes(t, outcomes(f, CutOptions{}, sectors),
		"aaa", "aab", "aba", "abb", "baa", "bab", "bba", "bbb")
}

func TestTornUnalignedWrite(t *testing.T) { // tears at multiples of the sector, not of the write
	f := New()
	put(t, f, "f", strings.Repeat("a", 2*sectorSize))
	h, err := f.Open("f")
	check(t, err)
	write(t, h, "bbbb", sectorSize-2)
	got := outcomes(f, CutOptions{}, func(image *FS) string {
		data, err := image.Bytes("f")
		check(t, err)
		return string(data[sectorSize-3 : sectorSize+3])
	})
	wantOutcomes(t, got, "aaaaaa", "abbaaa", "aaabba", "abbbba")
}

func TestTornAppend(t *testing.T) { // the length survives without the bytes, and in part
	f := New()
	put(t, f, "f", strings.Repeat("a", sectorSize))
	h, err := f.Open("f")
	check(t, err)
	write(t, h, strings.Repeat("b", 2*sectorSize), sectorSize)
	wantOutcomes(t, outcomes(f, CutOptions{}, sectors), "a", "ab", "a00", "ab0", "a0b", "abb")
}

func TestWritesSurviveInAnyOrder(t *testing.T) {
	f := New()
	put(t, f, "f", "0000")
	h, err := f.Open("f")
	check(t, err)
	write(t, h, "a", 0)
	write(t, h, "b", 1)
	write(t, h, "cc", 2)
	write(t, h, "dd", 1)
	got := outcomes(f, CutOptions{}, contents("f"))
	for _, want := range []string{"0000", "abcc", "a0cc", "0b00", "addc", "0ddc", "00cc", "abdc"} {
		if _, ok := got[want]; !ok {
			t.Errorf("no seed below %d leaves %q: %v", seeds, want, got)
		}
	}
}

func TestTearKeepsSyncedBytes(t *testing.T) {
	f := New()
	h := create(t, f, "f")
	write(t, h, "synced", 0)
	check(t, h.Datasync())
	check(t, f.SyncDir("/"))
	write(t, h, "x", 6)
	wantOutcomes(t, outcomes(f, CutOptions{}, contents("f")), "synced", "synced\x00", "syncedx")
}

func TestLengthChangesSurviveInOrder(t *testing.T) {
	f := New()
	put(t, f, "f", "abcd")
	h, err := f.Open("f")
	check(t, err)
	check(t, h.Truncate(2))
	check(t, h.Truncate(6))
	prefixes := []string{"abcd", "ab", "ab\x00\x00\x00\x00"}
	wantOutcomes(t, outcomes(f, CutOptions{}, contents("f")), prefixes...)
	wantOutcomes(t, outcomes(f, CutOptions{ReorderMetadata: true}, contents("f")),
		append(prefixes, "abcd\x00\x00")...)
}

func TestPreallocatedFilesAreSparse(t *testing.T) {
	f := New()
	block := make([]byte, 1<<20)
	for _, name := range []string{"a", "b", "c", "d"} {
		h := create(t, f, name)
		check(t, h.Allocate(64<<20))
		for off := int64(0); off < 64<<20; off += 1 << 20 { // zeros written out cost nothing either
			_, err := h.WriteAt(block, off)
			check(t, err)
		}
		write(t, h, "end", 64<<20-3)
		check(t, h.Datasync())
	}
	check(t, f.SyncDir("/"))
	for _, image := range []*FS{f, f.Kill(), f.PowerCut(CutOptions{})} {
		for name, n := range image.root.entries {
			if pages := len(n.current.table.pages); n.current.size != 64<<20 || pages != 1 {
				t.Errorf("%s: %d bytes in %d pages, want 64 MiB in 1", name, n.current.size, pages)
			}
		}
	}
}
