package segment_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// The bytes of a log, one group per field, as docs/FORMAT.md has them. The checksums come from
// another implementation of xxhash64.
const (
	// Segment 1 with id 0x0102030405060708, made with 512 bytes: magic, version, zero, number, id,
	// size, zero, checksum.
	goldenHeader = "4b455354524c4f47 01000000 00000000 0100000000000000 0807060504030201 " +
		"0002000000000000 00000000000000000000000000000000 6edb26e31416c235 "

	// Length, kind, zero, watermark, position, payload checksum, header checksum; number, id, end
	// and chain of the predecessor, of which there is none.
	goldenFirstLink = "20000000 02 000000 0000000000000000 4000000000000000 " +
		"f52c63705dbee9f6 cdbf2f778bad911b " +
		"0000000000000000 0000000000000000 0000000000000000 0000000000000000 "

	// The same; "hello", padding.
	goldenBatch = "05000000 01 000000 8800000000000000 8800000000000000 " +
		"a36d9f887d82c726 0e5f86f7134cd0d9 68656c6c6f 000000 "

	// The same, without payload.
	goldenMark = "00000000 04 000000 b800000000000000 b800000000000000 " +
		"99e9d85137db46ef e334febf24ba3866 "

	// The same; frames before it, chain.
	goldenTrailer = "10000000 03 000000 b800000000000000 b800000000000000 " +
		"09f726b9850d59ca 9f6a0c3bcfb95758 0200000000000000 c60caeefba7c730f "

	// A mark behind that trailer.
	goldenFollowed = "00000000 04 000000 f000000000000000 f000000000000000 " +
		"99e9d85137db46ef a6c167be480d9cf9 "

	goldenEndMark = "0000000000000000 "

	// Segment 2 with id 0x1112131415161718, and its link to segment 1 as sealed by goldenTrailer.
	goldenSecondHeader = "4b455354524c4f47 01000000 00000000 0200000000000000 1817161514131211 " +
		"0002000000000000 00000000000000000000000000000000 9ad3b495560cd194 "
	goldenSecondLink = "20000000 02 000000 f000000000000000 3001000000000000 " +
		"f9955cbffadd4e2a 3145877cca9cf80b " +
		"0100000000000000 0807060504030201 f000000000000000 57d5c63ce1806df7 "
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	must(t, err)
	return b
}

// wantFile compares a segment with a start written out and a byte that fills the rest.
func wantFile(t *testing.T, s *session, name, golden string, size int, rest byte) {
	t.Helper()
	f, err := s.fs.OpenReadOnly(name)
	must(t, err)
	defer f.Close()
	got := make([]byte, size+1)
	n, _ := f.ReadAt(got, 0)
	want := unhex(t, golden)
	want = append(want, bytes.Repeat([]byte{rest}, size-len(want))...)
	if !bytes.Equal(got[:n], want) {
		t.Errorf("%s is\n%x, want\n%x", name, got[:n], want)
	}
}

// goldenOptions give segments the ids the vectors have.
func goldenOptions() segment.Options {
	ids := []uint64{0x0102030405060708, 0x1112131415161718}
	return segment.Options{SegmentSize: 512, Spares: 1}.WithIDs(func() uint64 {
		id := ids[0]
		ids = ids[1:]
		return id
	})
}

func TestGolden(t *testing.T) {
	disk := segmenttest.New()
	s := &session{fs: disk, opts: goldenOptions(), h: &history{}}
	s.opts.FS = disk
	hello := append(make([]byte, segment.FrameHeaderSize), "hello"...)
	one, two := segmentPath('1'), segmentPath('2')

	must(t, s.open(promiseWritten))
	wantFile(t, s, one, goldenHeader+goldenFirstLink+goldenEndMark, 512, 0)
	_, _, err := s.log.Append(hello)
	must(t, err)
	written := goldenHeader + goldenFirstLink + goldenBatch
	wantFile(t, s, one, written+goldenEndMark, 512, 0)

	must(t, s.sync())
	must(t, s.log.Close())
	wantFile(t, s, one, written+goldenTrailer, 240, 0)

	s.h.batches = []batch{{136, 1, []byte("hello")}}
	must(t, s.open(promiseWritten))
	wantFile(t, s, one, written+goldenTrailer+goldenFollowed, 280, 0)
	wantFile(t, s, two, goldenSecondHeader+goldenSecondLink+goldenEndMark, 512, 0)
}

// TestGoldenRecycled has a mark, and a file that was used before: the end mark alone shows where
// the log ends.
func TestGoldenRecycled(t *testing.T) {
	disk := segmenttest.New()
	must(t, disk.WriteFile(logDir+"/0000000009.spare", bytes.Repeat([]byte{0xff}, 512)))
	s := &session{fs: disk, opts: goldenOptions(), h: &history{}}
	s.opts.FS = disk
	must(t, s.open(promiseWritten))
	_, _, err := s.log.Append(append(make([]byte, segment.FrameHeaderSize), "hello"...))
	must(t, err)
	must(t, s.sync())
	_, err = s.log.Mark()
	must(t, err)
	golden := goldenHeader + goldenFirstLink + goldenBatch + goldenMark + goldenEndMark
	wantFile(t, s, segmentPath('1'), golden, 512, 0xff)
}

// TestGoldenReads hands the vectors to the reader.
func TestGoldenReads(t *testing.T) {
	disk := segmenttest.New()
	one := unhex(t, goldenHeader+goldenFirstLink+goldenBatch+goldenTrailer)
	two := unhex(t, goldenSecondHeader+goldenSecondLink+goldenEndMark)
	must(t, disk.WriteFile(segmentPath('1'), one))
	must(t, disk.WriteFile(segmentPath('2'), append(two, make([]byte, 512-len(two))...)))
	var found []batch
	segments, tear, err := segment.Scan(disk, logDir, collect(&found))
	must(t, err)
	if len(segments) != 2 || segments[1].Base != 240 || segments[1].End != 240+136 || tear != nil ||
		len(found) != 1 || string(found[0].payload) != "hello" || found[0].position != 136 {
		t.Errorf("Scan = %+v, %+v, %+v", segments, tear, found)
	}
	for _, data := range [][]byte{one, two} {
		if ref, ok := refRead(data); !ok || ref.end() > int64(len(data)) {
			t.Errorf("the reference reader finds %+v, %v", ref, ok)
		}
	}
}

// TestGoldenInDocument finds every vector in the specification.
func TestGoldenInDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/FORMAT.md")
	must(t, err)
	document := strings.Join(strings.Fields(string(text)), "")
	for _, golden := range []string{
		goldenHeader, goldenFirstLink, goldenBatch, goldenTrailer, goldenFollowed, goldenMark + "224" + goldenEndMark,
		goldenSecondHeader, goldenSecondLink + "136" + goldenEndMark,
	} {
		if !strings.Contains(document, strings.ReplaceAll(golden, " ", "")) {
			t.Errorf("docs/FORMAT.md lacks %s", golden)
		}
	}
}
