package item

import (
	"fmt"
	"testing"
)

// BenchmarkImage encodes items one behind the other, and decodes them, which is done two or three
// times for each item that is put and got.
func BenchmarkImage(b *testing.B) {
	for _, size := range []int{64, 1 << 10} {
		it := Item{Added: goldenItem.Added, Data: make([]byte, size)}
		buf := make([]byte, 0, MaxChunkSize)
		b.Run(fmt.Sprintf("append/size=%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if cap(buf)-len(buf) < ImageSize(&it) {
					buf = buf[:0]
				}
				buf = AppendImage(buf, &it)
			}
		})
		for buf = buf[:0]; cap(buf)-len(buf) >= ImageSize(&it); {
			buf = AppendImage(buf, &it)
		}
		b.Run(fmt.Sprintf("parse/size=%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			rest := buf
			for b.Loop() {
				if len(rest) == 0 {
					rest = buf
				}
				_, n := ParseImage(rest)
				if n == 0 {
					b.Fatal("no image")
				}
				rest = rest[n:]
			}
		})
	}
}
