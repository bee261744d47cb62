package loadtest

import (
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	good := func() Options { return one("127.0.0.1:1", Group{Operations: 1}) }
	if err := good().Validate(); err != nil {
		t.Fatalf("Validate of the least options: %v", err)
	}
	for _, tt := range []struct {
		want   string // in the error
		change func(*Options, *Group)
	}{
		{"Addr is empty", func(o *Options, _ *Group) { o.Addr = "" }},
		{"unknown Protocol(9)", func(o *Options, _ *Group) { o.Protocol = 9 }},
		{"no Groups", func(o *Options, _ *Group) { o.Groups = nil }},
		{"group 0: unknown Operation(9)", func(_ *Options, g *Group) { g.Operation = 9 }},
		{"Connections is -1", func(_ *Options, g *Group) { g.Connections = -1 }},
		{"80000 connections", func(o *Options, g *Group) {
			g.Connections = 40000
			o.Groups = append(o.Groups, *g)
		}},
		{"Pipeline is 5000", func(_ *Options, g *Group) { g.Pipeline = 5000 }},
		{"Burst is -1", func(_ *Options, g *Group) { g.Burst = -1 }},
		{"ItemSize is -1", func(_ *Options, g *Group) { g.ItemSize = -1 }},
		{"a batch of 4096 values", func(_ *Options, g *Group) { g.Pipeline, g.ItemSize = 4096, 1<<20 }},
		{"Queues is 70000", func(_ *Options, g *Group) { g.Queues = 70000 }},
		{"Threads is 65", func(o *Options, _ *Group) { o.Threads = 65 }},
		{"Reconnect is -1", func(_ *Options, g *Group) { g.Reconnect = -1 }},
		{`Queue "a b" has a space`, func(_ *Options, g *Group) { g.Queue = "a b" }},
		{"neither Operations nor Duration", func(_ *Options, g *Group) { g.Operations = 0 }},
		{"Operations or Duration is negative", func(_ *Options, g *Group) { g.Duration = -1 }},
		{"WarmupOperations is negative", func(_ *Options, g *Group) { g.WarmupOperations = -1 }},
		{"Warmup, HeadStart", func(o *Options, _ *Group) { o.Warmup = -1 }},
		{"Wait or AutoAbort is negative", func(_ *Options, g *Group) { g.Wait = -1 }},
		{"want whole milliseconds", func(_ *Options, g *Group) { g.Wait = time.Microsecond }},
		{"not below ReplyWait", func(_ *Options, g *Group) { g.Wait = time.Minute }},
		{"Rate is -1", func(_ *Options, g *Group) { g.Rate = -1 }},
		{"Leak is 1 and Kill 0", func(_ *Options, g *Group) { g.Leak = 1 }},
		{"redis-string cannot do", func(o *Options, g *Group) {
			o.Protocol, g.Operation = RedisString, OpenClose
		}},
		{"memcache cannot do LEASE", func(_ *Options, g *Group) { g.Operation = Lease }},
		{"no put of several items", func(_ *Options, g *Group) { g.Burst = 2 }},
		{"want at least 34 to verify", func(o *Options, g *Group) {
			o.Ledger, g.ItemSize = NewLedger(1, false), 33
		}},
		{"need a Ledger", func(_ *Options, g *Group) { g.Drain = true }},
		{"Leak without Lease", func(o *Options, g *Group) {
			o.Ledger, g.Leak = NewLedger(1, false),
				0.5
		}},
		{"Kill with SET", func(o *Options, g *Group) { o.Ledger, g.Kill = NewLedger(1, false), 0.5 }},
		{"Rate with several requests in flight", func(_ *Options, g *Group) {
			g.Operation, g.Rate, g.Pipeline = OpenClose, 1, 2
		}},
		{"Rate of gets with HeadStart", func(o *Options, g *Group) {
			o.HeadStart, g.Operation, g.Rate = time.Second, Get, 1
		}},
		{"Reconnect with a protocol", func(o *Options, g *Group) { o.Protocol, g.Reconnect = NSQ, 1 }},
	} {
		o := good()
		tt.change(&o, func() *Group {
			if len(o.Groups) == 0 {
				return nil
			}
			return &o.Groups[0]
		}())
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Validate = %v, want %q", err, tt.want)
		}
	}
	bad := Options{Threads: 99, Groups: []Group{{Connections: -1}}}
	if err := bad.Validate(); strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("Validate reports %q, want 4 problems", err)
	}
}
