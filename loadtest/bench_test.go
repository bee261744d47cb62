package loadtest

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkBatch is what a batch of requests costs the generator besides system calls: to build it,
// to check the replies and to count them. An operation is a request.
func BenchmarkBatch(b *testing.B) {
	const pipeline = 32
	for _, bb := range []struct {
		protocol  Protocol
		operation Operation
		verify    bool
	}{
		{Memcache, Set, false}, {Memcache, Set, true}, {Memcache, Get, false}, {Thrift, Set, false},
		{Thrift, Set, true}, {RedisList, Set, false},
	} {
		b.Run(fmt.Sprintf("%v/%v/verify=%v", bb.protocol, bb.operation, bb.verify), func(b *testing.B) {
			opts := Options{Protocol: bb.protocol,
				Groups: []Group{{Operation: bb.operation, Pipeline: pipeline}}}
			stream := []byte(dueReplies(b, opts, pipeline))
			if bb.verify {
				opts.Ledger = NewLedger(1, false)
			}
			c, counted := newTestConn(b, opts, pipeline)
			at := time.Now()
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%pipeline > 0 {
					continue
				}
				c.prepare(pipeline, 0, at)
				if done, err := c.receive(counted, stream, time.Millisecond); !done || err != nil {
					b.Fatal(done, err)
				}
			}
		})
	}
}

// BenchmarkCheck is what it costs to make an item and to check it.
func BenchmarkCheck(b *testing.B) {
	l := NewLedger(1, false)
	p, c := newTestFeed(b, l, risingOrder)
	at, item := time.Now(), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		item = appendValue(item[:0], p.size, p.next(at), c.letters)
		p.acknowledge(1)
		if _, _, problem, _ := c.check(item); problem != "" {
			b.Fatal(problem)
		}
	}
}
