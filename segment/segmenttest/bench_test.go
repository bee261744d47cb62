package segmenttest

import (
	"fmt"
	"strings"
	"testing"
)

// logDir returns an FS like a log's in a crash test, with files of so many bytes. All is synced but the last few
// writes and one rename.
func logDir(b *testing.B, files, size int) *FS {
	b.Helper()
	f := New()
	check(b, f.MkdirAll("log"))
	frame := strings.Repeat("x", 100)
	for i := range files {
		h := create(b, f, fmt.Sprintf("log/%010d.seg", i))
		check(b, h.Allocate(64<<20))
		write(b, h, strings.Repeat("s", size), 0)
		check(b, h.Datasync())
		if i == files-1 {
			for j := range 8 {
				write(b, h, frame, int64(size+100*j))
			}
		}
	}
	check(b, f.SyncDir("log"))
	check(b, f.Rename("log/0000000000.seg", "log/spare"))
	return f
}

func BenchmarkPowerCut(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 4 << 20} {
		f := logDir(b, 4, size)
		for mode, name := range []string{Tear: "tear", Lose: "lose", Keep: "keep"} {
			b.Run(fmt.Sprintf("files=4/size=%dKiB/mode=%s", size>>10, name), func(b *testing.B) {
				b.ReportAllocs()
				opts := CutOptions{Mode: Mode(mode)}
				for b.Loop() {
					opts.Seed++
					f.PowerCut(opts)
				}
			})
		}
	}
}

func BenchmarkKill(b *testing.B) {
	f := logDir(b, 4, 64<<10)
	b.ReportAllocs()
	for b.Loop() {
		f.Kill()
	}
}

func BenchmarkWriteSync(b *testing.B) {
	for _, size := range []int{100, 4096, 64 << 10} {
		b.Run(fmt.Sprintf("payload=%dB", size), func(b *testing.B) {
			f := New()
			h := create(b, f, "f")
			p := []byte(strings.Repeat("x", size))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for off := int64(0); b.Loop(); off = (off + int64(size)) % (64 << 20) {
				_, err := h.WriteAt(p, off)
				check(b, err)
				check(b, h.Datasync())
			}
		})
	}
}
