package netloop

import (
	"strings"
	"testing"
)

// Thrift can make queues of any name. In statistics a name is part of one line, whatever it is.
func TestStatisticsOfAnyName(t *testing.T) {
	testThrift(t, Options{}, defaults(), func(t *testing.T, ts *testServer) {
		c, m := ts.dialThrift(), ts.dial(memcacheProtocol{})
		defer c.hangUp()
		defer m.hangUp()
		c.put("evil\r\nEND\r\nx", "1")
		c.put("日本", "1")
		c.put("café", "1")
		for _, tt := range []struct {
			command string
			want    []string
		}{
			{"stats", []string{
				"STAT queue_evil??END??x_items 1", "STAT queue_??_items 1", "STAT queue_caf\xe9_items 1"}},
			{"dump_stats", []string{"queue 'evil??END??x' {", "queue '??' {", "queue 'caf\xe9' {"}},
			{"dump_config", []string{"queue 'evil??END??x' {", "queue '??' {", "queue 'caf\xe9' {"}},
		} {
			m.feed([]byte(tt.command+"\r\n"), 1<<20)
			out, _ := m.received()
			m.consume(len(out))
			for _, line := range tt.want {
				if !strings.Contains(string(out), line+"\r\n") {
					t.Errorf("%s has no line %q:\n%s", tt.command, line, out)
				}
			}
			if i := strings.Index(string(out), "END\r\n"); i != len(out)-len("END\r\n") {
				t.Errorf("%s ends early, at %d of %d bytes", tt.command, i, len(out))
			}
		}
	})
}
