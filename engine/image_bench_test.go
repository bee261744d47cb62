package engine

import "testing"

// BenchmarkImage encodes items one behind the other, and decodes them, which is done two or three
// times for each item that is put and got.
func BenchmarkImage(b *testing.B) {
	bySize(b, func(b *testing.B, size int) {
		it := Item{Added: goldenItem.Added, Data: make([]byte, size)}
		buf := make([]byte, 0, maxChunkSize)
		b.Run("append", func(b *testing.B) {
			for b.Loop() {
				if cap(buf)-len(buf) < imageSize(it) {
					buf = buf[:0]
				}
				buf = appendImage(buf, it)
			}
		})
		for buf = buf[:0]; cap(buf)-len(buf) >= imageSize(it); {
			buf = appendImage(buf, it)
		}
		b.Run("parse", func(b *testing.B) {
			rest := buf
			for b.Loop() {
				if len(rest) == 0 {
					rest = buf
				}
				_, n, ok := parseImage(rest)
				if !ok {
					b.Fatal("no image")
				}
				rest = rest[n:]
			}
		})
	})
}
