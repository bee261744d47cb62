package segment_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/segment"
)

const benchFrame = 256 << 10 // bytes; what a queue's memory is spilled in

// BenchmarkRunCodec writes and reads back frames of one chunk each: what backlog_compression costs
// and saves, and what the page cache does. The bodies are items of JSON, and random bytes. "stored"
// is the size on disk as a part of the size in memory.
func BenchmarkRunCodec(b *testing.B) {
	for _, data := range []string{"json", "random"} {
		for _, codec := range []segment.Codec{segment.CodecNone, segment.CodecS2, segment.CodecZstd} {
			rng := rand.New(rand.NewPCG(1, 2))
			body := jsonItems(rng, benchFrame)
			if data == "random" {
				body = randomBytes(rng, benchFrame)
			}
			for mode, io := range []string{"cached", "direct"} {
				mode := segment.IO(mode)
				name := fmt.Sprintf("data=%s/codec=%s/io=%s", data, codec, io)
				b.Run("write/"+name, func(b *testing.B) { benchRunWrite(b, codec, mode, body) })
				b.Run("read/"+name, func(b *testing.B) { benchRunRead(b, codec, mode, body) })
			}
		}
	}
}

const benchRunSize = 64 // frames

func benchRunWrite(b *testing.B, codec segment.Codec, mode segment.IO, body []byte) {
	c := segment.NewCoder(codec)
	defer c.Close()
	dir := b.TempDir()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	var w *segment.RunWriter
	for i := 0; b.Loop(); i++ {
		if i%benchRunSize == 0 {
			b.StopTimer()
			if w != nil {
				must(b, w.Close())
				must(b, os.Remove(w.Path()))
			}
			var err error
			w, err = segment.CreateRun(segment.OS{}, filepath.Join(dir, fmt.Sprint(i)), 1, mode)
			must(b, err)
			b.StartTimer()
		}
		w.Add(c, segment.Tag{}, body)
		must(b, w.Write())
		if i == 0 {
			b.ReportMetric(float64(w.End()-segment.RunStart)/float64(len(body)), "stored")
		}
	}
	must(b, w.Close())
}

// benchRunFile makes a run of benchRunSize equal frames, in the page cache or on the disk.
func benchRunFile(
	b *testing.B, codec segment.Codec, mode segment.IO, body []byte,
) (name string, id segment.RunID, end int64) {
	c := segment.NewCoder(codec)
	defer c.Close()
	name = filepath.Join(b.TempDir(), "run")
	w, err := segment.CreateRun(segment.OS{}, name, 1, mode)
	must(b, err)
	for range benchRunSize {
		w.Add(c, segment.Tag{}, body)
		must(b, w.Write())
	}
	must(b, w.Close())
	return name, w.ID(), w.End()
}

func benchRunRead(b *testing.B, codec segment.Codec, mode segment.IO, body []byte) {
	name, id, end := benchRunFile(b, codec, mode, body)
	r, err := segment.OpenRun(segment.OS{}, name, id, &segment.ReadAhead{})
	must(b, err)
	defer r.Close()
	c := segment.NewCoder(codec)
	defer c.Close()
	dst := make([]byte, 0, benchFrame)
	off := int64(segment.RunStart)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%benchRunSize == 0 {
			off = segment.RunStart
		}
		f, err := r.Frame(off, end)
		must(b, err)
		_, err = r.Body(c, dst, f)
		must(b, err)
		off = f.Next
	}
}

// BenchmarkRunMapped compares two ways to get a frame from the page cache into a window. One is pread into a buffer.
// The other is a map whose pages are touched and verified, and then read in place. Both then copy every item out once,
// as a reply does, so that what is compared is the whole way. Each frame is read once and the files are taken in turn,
// because a backlog is read once.
func BenchmarkRunMapped(b *testing.B) {
	body := randomBytes(rand.New(rand.NewPCG(1, 2)), benchFrame)
	out := make([]byte, 1024)
	b.Run("way=pread", func(b *testing.B) {
		name, id, end := benchRunFile(b, segment.CodecNone, segment.Cached, body)
		dst := make([]byte, 0, benchFrame)
		b.SetBytes(benchFrame)
		var r *segment.RunReader
		var c segment.Coder
		off := int64(segment.RunStart)
		for i := 0; b.Loop(); i++ {
			if i%benchRunSize == 0 {
				if r != nil {
					must(b, r.Close())
				}
				var err error
				r, err = segment.OpenRun(segment.OS{}, name, id, nil)
				must(b, err)
				off = segment.RunStart
			}
			f, err := r.Frame(off, end)
			must(b, err)
			got, err := r.Body(&c, dst, f)
			must(b, err)
			copyItems(out, got)
			off = f.Next
		}
		must(b, r.Close())
	})
	b.Run("way=mmap", func(b *testing.B) {
		name, _, _ := benchRunFile(b, segment.CodecNone, segment.Cached, body)
		const stride = benchFrame + segment.RunFrameOverhead
		b.SetBytes(benchFrame)
		var m []byte
		for i := 0; b.Loop(); i++ {
			if i%benchRunSize == 0 {
				m = remap(b, m, name, segment.RunStart+benchRunSize*stride)
			}
			at := segment.RunStart + i%benchRunSize*stride
			got := m[at+segment.RunFrameOverhead : at+stride]
			if xxh3.Hash(got) == 0 {
				b.Fatal("checksum")
			}
			copyItems(out, got)
		}
		remap(b, m, "", 0)
	})
}

// remap unmaps m and maps the file called name.
func remap(b *testing.B, m []byte, name string, size int) []byte {
	if m != nil {
		must(b, unix.Munmap(m))
	}
	if name == "" {
		return nil
	}
	f, err := os.Open(name)
	must(b, err)
	defer f.Close()
	m, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	must(b, err)
	must(b, unix.Madvise(m, unix.MADV_SEQUENTIAL))
	return m
}

func copyItems(out, chunk []byte) {
	for off := 0; off+len(out) <= len(chunk); off += len(out) {
		copy(out, chunk[off:])
	}
}
