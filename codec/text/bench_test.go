package text

import (
	"fmt"
	"strings"
	"testing"
)

func BenchmarkDecode(b *testing.B) {
	benchmarks := []struct{ name, in string }{
		{"get", "get work\n"},
		{"get=wait", "get work 1000\n"},
		{"put", "put work 60000:\n"},
		{"confirm", "confirm work 100\n"},
		{"error=unknown", "frobnicate q\n"},
		{"incomplete", "get wor"},
	}
	for _, bb := range benchmarks {
		b.Run(bb.name, func(b *testing.B) {
			src := []byte(bb.in)
			var (
				d   Decoder
				req Request
			)
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				d.Decode(src, &req)
			}
		})
	}
}

// BenchmarkDecodePut decodes a put with its items, as a server does.
func BenchmarkDecodePut(b *testing.B) {
	for _, size := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("items=100/payload=%dB", size), func(b *testing.B) {
			const count = 100
			item := strings.Repeat("x", size) + "\n"
			src := []byte("put work:\n" + strings.Repeat(item, count) + "\n")
			var (
				d   Decoder
				req Request
				at  Items
			)
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				n, err := d.Decode(src, &req)
				items := 0
				for rest := src[n:]; err == nil; rest = rest[n:] {
					_, n, err = d.DecodeItem(rest, &at)
					items++
				}
				if err != ErrEndOfItems || items != count+1 {
					b.Fatalf("%d items, %v", items, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/item")
		})
	}
}

func BenchmarkAppendItem(b *testing.B) {
	for _, size := range []int{64, 1024} {
		b.Run(fmt.Sprintf("payload=%dB", size), func(b *testing.B) {
			data := make([]byte, size)
			dst := AppendItem(nil, data)
			b.SetBytes(int64(len(dst)))
			b.ReportAllocs()
			for b.Loop() {
				dst = AppendItem(dst[:0], data)
			}
		})
	}
}

func BenchmarkDecodeReply(b *testing.B) {
	for _, in := range []string{"+1\n", "*\n", ":" + strings.Repeat("x", 64) + "\n"} {
		b.Run(fmt.Sprintf("size=%dB", len(in)), func(b *testing.B) {
			src := []byte(in)
			var r Reply
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeReply(src, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
