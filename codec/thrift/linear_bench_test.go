package thrift

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkDecodeLinear shows that sixteen times the bytes take about sixteen times as long,
// whatever they announce: ns/byte of both sizes are alike.
func BenchmarkDecodeLinear(b *testing.B) {
	cases := []struct {
		name string
		head string // COUNT in it is the number of bodies
		body string // as often as the size wants it
		end  string
	}{
		{"items", putHead + queueArg + `0f 0002 0b COUNT`, `00000001 00`, `00`},
		{"items, one too many", putHead + queueArg + `0f 0002 0b COUNT`, `00000001 00`, ``},
		{"items again and again", putHead + queueArg, `0f 0002 0b 00000001 00000000`, `00`},
		{"items that announce more", putHead, `0f 0002 0b 00007fff`, `00`},
		{"queue names", putHead, `0b 0001 00000000`, `00`},
		{"fields", putHead + queueArg, `02 0009 01`, `00`},
		{"structs", putHead + queueArg, `0c 0009 00`, `00`},
		{"nested structs", putHead + queueArg, nested(60, `0c 0009`, `00`), `00`},
		{"list of structs", putHead + queueArg + `0f 0009 0c COUNT`, `00`, `00`},
		{"list of lists", putHead + queueArg + `0f 0009 0f COUNT`, `02 00000000`, `00`},
		{"list of nested lists", putHead + queueArg + `0f 0009 0f COUNT`,
			strings.Repeat(`0f 00000001`, 60) + `02 00000000`, `00`},
		{"lists that announce more", putHead, `0f 0009 0f 00000100`, `00`},
		{"nested lists that announce more", putHead + `0f 0009`, `0f 00000010`, ``},
		{"map of strings", putHead + queueArg + `0d 0009 0b 0b COUNT`, `00000000 00000000`, `00`},
		{"maps that announce more", putHead, `0d 0009 0d 0d 00000100`, `00`},
		{"ids", confirmHead + queueArg + `0e 0002 0a COUNT`, `0000000000000000`, `00`},
		{"unknown method", `80010001 00000004 "nope" 00000001`, `02 0009 01`, `00`},
	}
	for _, bb := range cases {
		for _, size := range []int{32 << 10, 512 << 10} {
			count := size / len(unhex(b, bb.body))
			head := strings.Replace(bb.head, "COUNT", fmt.Sprintf("%08x", count), 1)
			src := frame(unhex(b, head+strings.Repeat(bb.body, count)+bb.end))
			b.Run(fmt.Sprintf("%s/KiB=%d", bb.name, size>>10), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					var req Request
					Decoder{}.Decode(src, &req)
				}
				perByte := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / float64(len(src))
				b.ReportMetric(perByte, "ns/byte")
			})
		}
	}
}
