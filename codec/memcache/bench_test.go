package memcache

import (
	"bytes"
	"fmt"
	"testing"
)

func BenchmarkDecode(b *testing.B) {
	benchmarks := []struct{ name, in string }{
		{"get", "get q\r\n"},
		{"get=close-open-wait", "get work/close/open/t=1000\r\n"},
		{"set=64B", "set q 0 0 64\r\n" + payload(64) + "\r\n"},
		{"set=1KiB", "set some_queue 0 1700000000 1024\r\n" + payload(1024) + "\r\n"},
		{"monitor", "monitor work 10 100\r\n"},
		{"confirm", "confirm work 100\r\n"},
		{"flush_all_expired", "FLUSH_ALL_EXPIRED\r\n"},
		{"error=unknown", "frobnicate q\r\n"},
		{"error=flags", "set q x 0 64\r\n" + payload(64) + "\r\n"},
		{"incomplete=set", "set q 0 0 64\r\n" + payload(63)},
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

// BenchmarkDecodePipeline decodes a full read buffer, request after request.
func BenchmarkDecodePipeline(b *testing.B) {
	benchmarks := []struct{ name, in string }{
		{"set=64B", "set some_queue 0 0 64\r\n" + payload(64) + "\r\n"},
		{"get", "get some_queue\r\n"},
	}
	for _, bb := range benchmarks {
		b.Run(bb.name, func(b *testing.B) {
			const depth = 32
			src := bytes.Repeat([]byte(bb.in), depth)
			var (
				d   Decoder
				req Request
			)
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				for rest := src; len(rest) > 0; {
					n, err := d.Decode(rest, &req)
					if err != nil {
						b.Fatal(err)
					}
					rest = rest[n:]
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/depth, "ns/request")
		})
	}
}

func BenchmarkAppendValue(b *testing.B) {
	for _, size := range []int{0, 64, 1024, 64 << 10} {
		b.Run(fmt.Sprintf("payload=%dB", size), func(b *testing.B) {
			queue, data := []byte("work"), []byte(payload(size))
			dst := AppendValue(nil, queue, 0, data)
			b.SetBytes(int64(len(dst)))
			b.ReportAllocs()
			for b.Loop() {
				dst = AppendValue(dst[:0], queue, 0, data)
			}
		})
	}
}

func BenchmarkAppendSet(b *testing.B) {
	queue, data := []byte("work"), []byte(payload(64))
	dst := AppendSet(nil, queue, 0, 0, data)
	b.SetBytes(int64(len(dst)))
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendSet(dst[:0], queue, 0, 0, data)
	}
}

func BenchmarkDecodeReply(b *testing.B) {
	benchmarks := []struct{ name, in string }{
		{"stored", ReplyStored},
		{"end", ReplyEnd},
		{"value=64B", "VALUE work 0 64\r\n" + payload(64) + ValueTrailer},
	}
	for _, bb := range benchmarks {
		b.Run(bb.name, func(b *testing.B) {
			src := []byte(bb.in)
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

// payload returns size bytes that would make trouble if they were taken for a command.
func payload(size int) string {
	const line = "shutdown\r\n"
	return string(bytes.Repeat([]byte(line), size/len(line)+1)[:size])
}
