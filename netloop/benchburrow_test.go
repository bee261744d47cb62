package netloop

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// BenchmarkBurrow is BenchmarkLoopback for Burrow's protocol: server-ns/item is the processor time of the server
// for one message that goes through all the requests.
func BenchmarkBurrow(b *testing.B) {
	body := strings.Repeat("x", 64)
	put := "PUT /v1.0/default/bench/job-%02d HTTP/1.1\r\nHost: localhost\r\nContent-Length: 64\r\n\r\n" + body
	get := "GET /v1.0/default/bench/job-%02d?detail=body HTTP/1.1\r\nHost: localhost\r\n\r\n"
	remove := "DELETE /v1.0/default/bench/job-%02d HTTP/1.1\r\nHost: localhost\r\n\r\n"
	empty := func(status string) string {
		return "HTTP/1.1 " + status + "\r\nContent-Type: text/html; charset=UTF-8\r\nContent-Length: 0\r\n\r\n"
	}
	shown := "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream; charset=UTF-8\r\nContent-Length: 64\r\n\r\n" + body
	type exchange struct{ request, reply string }
	for _, bb := range []struct {
		name string
		turn []exchange
	}{
		{"PUT+DELETE", []exchange{{put, empty("201 Created")}, {remove, empty("204 No Content")}}},
		{"PUT+GET+DELETE", []exchange{{put, empty("201 Created")}, {get, shown}, {remove, empty("204 No Content")}}},
	} {
		for _, pipeline := range []int{1, 32} {
			b.Run(fmt.Sprintf("%s/pipeline=%d", bb.name, pipeline), func(b *testing.B) {
				s := startServer(b, DefaultEventLoop, Options{Burrow: "127.0.0.1:0", Loops: 1}, unsynced())
				c := dialBench(b, s.BurrowAddr())
				var requests, replies [][]byte
				for _, x := range bb.turn {
					var request []byte
					for i := range pipeline {
						request = fmt.Appendf(request, x.request, i)
					}
					requests = append(requests, request)
					replies = append(replies, []byte(strings.Repeat(x.reply, pipeline)))
				}
				got := make([]byte, 64<<10)
				turn := func() {
					for i, request := range requests {
						c.write(request)
						if c.read(got[:len(replies[i])]); !bytes.Equal(got[:len(replies[i])], replies[i]) {
							b.Fatalf("got %q", got[:len(replies[i])])
						}
					}
				}
				for range 100 { // pools and buffers reach their size
					turn()
				}
				b.ReportAllocs()
				c.begin()
				for b.Loop() {
					turn()
				}
				c.report(b.N * pipeline)
			})
		}
	}
}
