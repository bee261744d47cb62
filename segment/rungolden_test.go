package segment_test

import (
	"bytes"
	"errors"
	"os"
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
	// Extended runs, written either way.
	goldenExtendedHeader = "4b4553545252554e 05000000 00000000 0700000000000000 0807060504030201 " +
		"000000000000000000000000000000000000000000000000 5e265f16529082d3 "
	goldenWideExtended = "4b4553545252554e 06000000 00000000 0700000000000000 0807060504030201 " +
		"000000000000000000000000000000000000000000000000 ba3fbc716dd344d8 "
	// The same with frames of keys.
	goldenKeyedHeader = "4b4553545252554e 09000000 00000000 0700000000000000 0807060504030201 " +
		"000000000000000000000000000000000000000000000000 74f9f5442d798d86 "
	goldenWideKeyed = "4b4553545252554e 0a000000 00000000 0700000000000000 0807060504030201 " +
		"000000000000000000000000000000000000000000000000 a951c858d5263d57 "
	goldenWideFrame = "05000000 05000000 00000000 780f0000 4000000000000000 " +
		"0102030405060708090a0b0c0d0e0f101112131415161718 " +
		"fddc625c55e85595 abb8a41b83d37ab9 68656c6c6f 000000 "
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

// TestExtendedRunGolden: an extended run has another version, and is read all the same.
func TestExtendedRunGolden(t *testing.T) {
	text, err := os.ReadFile("../docs/FORMAT.md")
	must(t, err)
	document := strings.Join(strings.Fields(string(text)), "")
	for i, golden := range []string{goldenExtendedHeader, goldenWideExtended, goldenKeyedHeader, goldenWideKeyed} {
		if got := segment.AppendExtendedRunHeader(nil, goldenRunID, segment.IO(i%2), i >= 2); !bytes.Equal(got, unhex(t, golden)) {
			t.Errorf("header % x, want %s", got, golden)
		}
		if !strings.Contains(document, strings.ReplaceAll(golden, " ", "")) {
			t.Errorf("docs/FORMAT.md lacks %s", golden)
		}
	}
	disk := segmenttest.New()
	must(t, disk.MkdirAll("runs"))
	w, err := segment.CreateRun(disk, runName, goldenRunID.Number, segment.Cached)
	must(t, err)
	w.Extend(true)
	coder := segment.NewCoder(segment.CodecNone)
	w.Add(coder, segment.Tag{1}, []byte("hello"))
	must(t, w.Write())
	r, err := segment.OpenRun(disk, runName, w.ID(), nil)
	must(t, err)
	f, err := r.Frame(segment.RunStart, w.End())
	must(t, err)
	if body, err := r.Body(coder, nil, f); err != nil || string(body) != "hello" || !r.IsExtended() || !r.IsKeyed() {
		t.Errorf("body %q, error %v, extended = %v, keyed = %v", body, err, r.IsExtended(), r.IsKeyed())
	}
	must(t, errors.Join(r.Close(), w.Close()))
}

// TestRunWidePadding: only a run that was written past the page cache has wide padding.
func TestRunWidePadding(t *testing.T) {
	disk := segmenttest.New()
	data := append(unhex(t, goldenRunHeader+goldenWideFrame), make([]byte, 0xf78)...)
	must(t, disk.WriteFile(runName, data))
	if _, err := readRun(disk, runName, goldenRunID, int64(len(data))); !errors.Is(err, segment.ErrCorrupt) {
		t.Errorf("error %v, want ErrCorrupt", err)
	}
}

// TestRunUnknownVersion: what a build of another version has written is not damaged, and not read.
func TestRunUnknownVersion(t *testing.T) {
	for _, version := range []byte{1, 2, 7, 8, 11} {
		testRunUnknownVersion(t, version)
	}
}

func testRunUnknownVersion(t *testing.T, version byte) {
	t.Helper()
	disk := segmenttest.New()
	data := unhex(t, goldenRunHeader+goldenRunFrame)
	data[8] = version
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

// TestSalvageRunVersion damages the header of a run, and so its version: what is behind it is found, with
// wide padding or without.
func TestSalvageRunVersion(t *testing.T) {
	for i, golden := range [][2]string{
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
			t.Errorf("version %d: found %q, gaps %+v", i+3, found, gaps)
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
