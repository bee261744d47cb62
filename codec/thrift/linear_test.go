package thrift

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestDecodeLinear checks that sixteen times the bytes take about sixteen times as long, whatever
// they announce.
func TestDecodeLinear(t *testing.T) {
	tests := []struct {
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
	// sized returns a frame of about size bytes.
	sized := func(head, body, end string, size int) []byte {
		count := size / len(unhex(t, body))
		head = strings.Replace(head, "COUNT", fmt.Sprintf("%08x", count), 1)
		return frame(unhex(t, head+strings.Repeat(body, count)+end))
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const size, factor, slack = 32 << 10, 16, 8
			small := decodeTime(sized(tt.head, tt.body, tt.end, size))
			large := decodeTime(sized(tt.head, tt.body, tt.end, factor*size))
			if large > factor*slack*max(small, time.Microsecond) {
				t.Errorf("Decode of %d KiB takes %v, of %d KiB %v",
					size>>10, small, factor*size>>10, large)
			}
		})
	}
}

// decodeTime returns the shortest time in which src was decoded.
func decodeTime(src []byte) time.Duration {
	shortest := time.Hour
	for range 5 {
		var req Request
		start := time.Now()
		Decoder{}.Decode(src, &req)
		shortest = min(shortest, time.Since(start))
	}
	return shortest
}
