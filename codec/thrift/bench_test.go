package thrift

import (
	"bytes"
	"fmt"
	"testing"
)

func BenchmarkDecode(b *testing.B) {
	queue := []byte("work")
	var c Client
	benchmarks := []struct {
		name string
		in   []byte
	}{
		{"get", c.AppendGet(nil, 1, queue, GetOptions{MaxItems: 1, WaitMillis: 100})},
		{"confirm=1", c.AppendConfirm(nil, 1, queue, 1)},
		{"get_version", c.AppendCall(nil, MethodGetVersion, 1, nil)},
		{"put=64B", c.AppendPut(nil, 1, queue, 0, make([]byte, 64))},
		{"incomplete", c.AppendPut(nil, 1, queue, 0, make([]byte, 64))[:40]},
		{"error=protocol", frame(unhex(b, putHead+`0b 0001 ffffffff 00`))},
	}
	for _, bb := range benchmarks {
		b.Run(bb.name, func(b *testing.B) {
			var (
				d   Decoder
				req Request
			)
			b.SetBytes(int64(len(bb.in)))
			b.ReportAllocs()
			for b.Loop() {
				d.Decode(bb.in, &req)
			}
		})
	}
}

// BenchmarkDecodePut decodes a put and looks at each of its items, as a server does.
func BenchmarkDecodePut(b *testing.B) {
	for _, size := range []int{0, 64, 1024} {
		b.Run(fmt.Sprintf("items=100/payload=%dB", size), func(b *testing.B) {
			const count = 100
			items := make([][]byte, count)
			for i := range items {
				items[i] = bytes.Repeat([]byte("x"), size)
			}
			src := Client{}.AppendPut(nil, 1, []byte("work"), 0, items...)
			var (
				d   Decoder
				req Request
			)
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Decode(src, &req); err != nil {
					b.Fatal(err)
				}
				total := 0
				for item, ok := req.Items.Next(); ok; item, ok = req.Items.Next() {
					total += len(item)
				}
				if total != count*size {
					b.Fatal(total)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/item")
		})
	}
}

// BenchmarkAppendItems builds a reply to get.
func BenchmarkAppendItems(b *testing.B) {
	for _, size := range []int{64, 1024} {
		b.Run(fmt.Sprintf("items=100/payload=%dB", size), func(b *testing.B) {
			const count = 100
			data := make([]byte, size)
			call := Call{Method: MethodGet, Seq: 1}
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				dst = BeginItems(dst[:0], call)
				for i := range count {
					dst = AppendItem(dst, &Item{Data: data, ID: int64(i), Deliveries: 1})
				}
				dst = EndItems(dst, 0, count)
			}
			b.SetBytes(int64(len(dst)))
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/item")
		})
	}
}

func BenchmarkAppendCount(b *testing.B) {
	call := Call{Method: MethodPut, Seq: 1}
	dst := AppendCount(nil, call, 1)
	b.SetBytes(int64(len(dst)))
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendCount(dst[:0], call, 1)
	}
}

func BenchmarkAppendPut(b *testing.B) {
	queue, data := []byte("work"), make([]byte, 64)
	dst := Client{}.AppendPut(nil, 1, queue, 0, data)
	b.SetBytes(int64(len(dst)))
	b.ReportAllocs()
	for b.Loop() {
		dst = Client{}.AppendPut(dst[:0], 1, queue, 0, data)
	}
}

func BenchmarkDecodeReply(b *testing.B) {
	put := AppendCount(nil, Call{Method: MethodPut, Seq: 1}, 1)
	for _, count := range []int{1, 100} {
		get := BeginItems(nil, Call{Method: MethodGet, Seq: 1})
		for range count {
			get = AppendItem(get, &Item{Data: make([]byte, 64), ID: 0, Deliveries: 1})
		}
		get = EndItems(get, 0, count)
		b.Run(fmt.Sprintf("get=%dx64B", count), func(b *testing.B) { benchmarkReply(b, get) })
	}
	b.Run("put", func(b *testing.B) { benchmarkReply(b, put) })
}

// benchmarkReply decodes a reply and looks at its items.
func benchmarkReply(b *testing.B, src []byte) {
	var r Reply
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (Client{}).DecodeReply(src, &r); err != nil {
			b.Fatal(err)
		}
		for it, ok := r.Items.Next(); ok; it, ok = r.Items.Next() {
			if it.ID != 0 {
				b.Fatal(it)
			}
		}
	}
}
