package segment_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// The bytes of a run, one group per field, as docs/FORMAT.md has them. The checksums come from
// another implementation of XXH64 and XXH3: libxxhash 0.8.1.
const (
	// Run 7 with id 0x0102030405060708: magic, version, zero, number, id, zero, checksum.
	goldenRunHeader = "4b4553545252554e 03000000 00000000 0700000000000000 0807060504030201 " +
		"000000000000000000000000000000000000000000000000 ce07171feda6f9f9 "

	// Stored and raw length, codec, wide padding, offset, tag, body checksum, header checksum; "hello",
	// padding.
	goldenRunFrame = "05000000 05000000 00000000 00000000 4000000000000000 " +
		"0102030405060708090a0b0c0d0e0f101112131415161718 " +
		"fddc625c55e85595 788cc4a744593ed7 68656c6c6f 000000 "

	// The same past the page cache: version 4, and 3,960 bytes of wide padding, which is zero.
	goldenWideHeader = "4b4553545252554e 04000000 00000000 0700000000000000 0807060504030201 " +
		"000000000000000000000000000000000000000000000000 5c8d06689fcd9738 "
	goldenWideFrame = "05000000 05000000 00000000 780f0000 4000000000000000 " +
		"0102030405060708090a0b0c0d0e0f101112131415161718 " +
		"fddc625c55e85595 abb8a41b83d37ab9 68656c6c6f 000000 "

	// The same in versions 1 and 2, in which runs were written once: bodies have xxhash64.
	goldenHeader1 = "4b4553545252554e 01000000 00000000 0700000000000000 0807060504030201 " +
		"000000000000000000000000000000000000000000000000 987a015dbe55d8ee "
	goldenFrame1 = "05000000 05000000 00000000 00000000 4000000000000000 " +
		"0102030405060708090a0b0c0d0e0f101112131415161718 " +
		"a36d9f887d82c726 3a2636060ca3ed10 68656c6c6f 000000 "
	goldenHeader2 = "4b4553545252554e 02000000 00000000 0700000000000000 0807060504030201 " +
		"000000000000000000000000000000000000000000000000 63536936cabaeafc "
	goldenFrame2 = "05000000 05000000 00000000 780f0000 4000000000000000 " +
		"0102030405060708090a0b0c0d0e0f101112131415161718 " +
		"a36d9f887d82c726 d25cf40a4f6ca510 68656c6c6f 000000 "
)

func TestRunGolden(t *testing.T) {
	text, err := os.ReadFile("../docs/FORMAT.md")
	must(t, err)
	document := strings.Join(strings.Fields(string(text)), "")
	for mode, golden := range [][]string{
		{goldenRunHeader, goldenRunFrame}, {goldenWideHeader, goldenWideFrame},
	} {
		want := unhex(t, golden[0]+golden[1])
		if segment.IO(mode) == segment.Direct {
			want = append(want, make([]byte, 0xf78)...)
		}
		goldenRun(t, segment.IO(mode), want)
		for _, part := range golden {
			if !strings.Contains(document, strings.ReplaceAll(part, " ", "")) {
				t.Errorf("docs/FORMAT.md lacks %s", part)
			}
		}
	}
}

// TestRunOldVersions reads runs as they were written once, and finds what is wrong with them: a body
// must have the checksum of its version.
func TestRunOldVersions(t *testing.T) {
	for name, tt := range map[string]struct {
		header, frame string
		wide          int
		good          bool
	}{
		"1":                   {goldenHeader1, goldenFrame1, 0, true},
		"2":                   {goldenHeader2, goldenFrame2, 0xf78, true},
		"1 with a new sum":    {goldenHeader1, goldenRunFrame, 0, false},
		"2 with a new sum":    {goldenHeader2, goldenWideFrame, 0xf78, false},
		"3 with an old sum":   {goldenRunHeader, goldenFrame1, 0, false},
		"4 with an old sum":   {goldenWideHeader, goldenFrame2, 0xf78, false},
		"1 with wide padding": {goldenHeader1, goldenFrame2, 0xf78, false},
		"3 with wide padding": {goldenRunHeader, goldenWideFrame, 0xf78, false},
	} {
		disk := segmenttest.New()
		data := append(unhex(t, tt.header+tt.frame), make([]byte, tt.wide)...)
		must(t, disk.WriteFile(runName, data))
		got, err := readRun(disk, runName, goldenRunID, int64(len(data)))
		if tt.good && (err != nil || !slices.Equal(got, []string{"hello"})) {
			t.Errorf("version %s reads as %q, %v", name, got, err)
		}
		if !tt.good && !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("version %s: error %v, want ErrCorrupt", name, err)
		}
	}
}

// TestRunUnknownVersion: what a later version has written is not damaged, and not read.
func TestRunUnknownVersion(t *testing.T) {
	disk := segmenttest.New()
	data := unhex(t, goldenRunHeader+goldenRunFrame)
	data[8] = 5
	must(t, disk.WriteFile(runName, refixHeader(data)))
	_, openErr := segment.OpenRun(disk, runName, goldenRunID, nil)
	_, _, identifyErr := segment.IdentifyRun(disk, runName)
	gaps, salvageErr := segment.SalvageRun(disk, runName, goldenRunID, int64(len(data)), nil, nil)
	for what, err := range map[string]error{
		"OpenRun": openErr, "IdentifyRun": identifyErr, "SalvageRun": salvageErr,
	} {
		if !errors.Is(err, segment.ErrUnknownVersion) || errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("%s = %v, want ErrUnknownVersion alone", what, err)
		}
	}
	if len(gaps) > 0 {
		t.Errorf("gaps %+v", gaps)
	}
}

// TestSalvageRunOldVersions has the header of a run be damaged, and so its version: what is behind it
// is found, whatever checksum it has.
func TestSalvageRunOldVersions(t *testing.T) {
	for i, golden := range [][2]string{
		{goldenHeader1, goldenFrame1}, {goldenHeader2, goldenFrame2},
		{goldenRunHeader, goldenRunFrame}, {goldenWideHeader, goldenWideFrame},
	} {
		disk := segmenttest.New()
		data := append(unhex(t, golden[0]+golden[1]), make([]byte, 0xf78)...)
		data[8] ^= 1 << 7
		must(t, disk.WriteFile(runName, data))
		found := ""
		gaps, err := segment.SalvageRun(disk, runName, goldenRunID, segment.RunStart+1, nil,
			func(_ segment.RunFrame, body []byte) error { found += string(body); return nil })
		must(t, err)
		if found != "hello" || len(gaps) != 1 || gaps[0].Batches {
			t.Errorf("version %d: found %q, gaps %+v", i+1, found, gaps)
		}
	}
}

// goldenRun writes "hello" to a run and wants it to be these bytes, and reads them.
func goldenRun(t *testing.T, mode segment.IO, want []byte) {
	t.Helper()
	disk := segmenttest.New()
	w := newRun(t, disk, mode)
	if off := w.Add(nil, runTag(), []byte("hello")); off != segment.RunStart {
		t.Errorf("Add = %d, want %d", off, segment.RunStart)
	}
	must(t, w.Write())
	must(t, w.Close())
	if w.End() != int64(len(want)) {
		t.Errorf("End = %d, want %d", w.End(), len(want))
	}
	if got, err := disk.Bytes(runName); err != nil || !bytes.Equal(got, want) {
		t.Errorf("run is\n%x, %v, want\n%x", got, err, want)
	}
	must(t, disk.WriteFile("other", want))
	got, err := readRun(disk, "other", goldenRunID, int64(len(want)))
	if err != nil || len(got) != 1 || got[0] != "hello" {
		t.Errorf("the vectors read as %q, %v", got, err)
	}
}
