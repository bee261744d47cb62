package loadtest

import (
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	good := Options{Addr: "127.0.0.1:1", Operations: 1}
	if err := good.Validate(); err != nil {
		t.Fatalf("Validate of the least options: %v", err)
	}
	for _, tt := range []struct {
		want   string // in the error
		change func(*Options)
	}{
		{"Addr is empty", func(o *Options) { o.Addr = "" }},
		{"unknown Protocol(9)", func(o *Options) { o.Protocol = 9 }},
		{"unknown Operation(9)", func(o *Options) { o.Operation = 9 }},
		{"Connections is -1", func(o *Options) { o.Connections = -1 }},
		{"Pipeline is 5000", func(o *Options) { o.Pipeline = 5000 }},
		{"ItemSize is -1", func(o *Options) { o.ItemSize = -1 }},
		{"a batch of 4096 values", func(o *Options) { o.Pipeline, o.ItemSize = 4096, 1<<20 }},
		{"Queues is 70000", func(o *Options) { o.Queues = 70000 }},
		{"Threads is 65", func(o *Options) { o.Threads = 65 }},
		{"Reconnect is -1", func(o *Options) { o.Reconnect = -1 }},
		{`Queue "a b" is not`, func(o *Options) { o.Queue = "a b" }},
		{"neither Operations nor Duration", func(o *Options) { o.Operations = 0 }},
		{"Operations or Duration is negative", func(o *Options) { o.Duration = -1 }},
		{"WarmupOperations or Warmup is negative", func(o *Options) { o.Warmup = -1 }},
		{"ReplyWait or Wait is negative", func(o *Options) { o.Wait = -1 }},
		{"want whole milliseconds", func(o *Options) { o.Wait = time.Microsecond }},
		{"not below ReplyWait", func(o *Options) { o.Wait = time.Minute }},
		{"neither reliable reads", func(o *Options) { o.Protocol, o.Operation = RedisString, OpenClose }},
		{"want at least 26 to verify", func(o *Options) { o.Verify, o.ItemSize = true, 25 }},
		{"1 queues for 2 producers", func(o *Options) { o.Verify, o.Connections = true, 2 }},
	} {
		o := good
		tt.change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Validate = %v, want %q", err, tt.want)
		}
	}
	bad := Options{Connections: -1, Threads: 99}
	if err := bad.Validate(); strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("Validate reports %q, want 4 problems", err)
	}
}
