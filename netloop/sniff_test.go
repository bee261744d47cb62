package netloop

import (
	"fmt"
	"strings"
	"testing"
)

// peerOnly is a sink that has a peer, and nothing else.
type peerOnly struct {
	sink
	addr string
}

func (p peerOnly) peer() string { return p.addr }

// TestSnifferIsBounded has more queues and more connections ask than are counted apart. Every request still counts, and
// what is known of each is not mixed up.
func TestSnifferIsBounded(t *testing.T) {
	l := &loop{sniff: newSniffer(func(queue string) bool { return !strings.HasPrefix(queue, "dull") })}
	ask := func(number uint64, queue string) {
		s := &session{loop: l, proto: textProtocol{}, sink: peerOnly{addr: fmt.Sprintf("10.0.0.%d:5000", number%200)}}
		s.tally.number = number
		s.asks("get", []byte(queue))
		s.gets(10)
	}
	const more = 1000
	for i := range uint64(maxCallers + more) {
		ask(i, "busy")
	}
	for i := range maxAsked + more {
		ask(1, fmt.Sprintf("queue%d", i))
		ask(1, "dull")
	}
	n := l.sniff
	sum := sniffSum{by: make(map[AskedBy]*Asked)}
	sum.add(n)
	total, items := sum.beyond, int64(0)
	for _, a := range sum.sorted() {
		total += a.Requests
		if a.Queue == "busy" && a.Got != nil {
			items += a.Got.Total()
		}
	}
	if want := int64(maxCallers + more + maxAsked + more); total != want || sum.beyond == 0 {
		t.Errorf("%d requests were counted, %d of them beyond; want %d", total, sum.beyond, want)
	}
	if items != maxCallers {
		t.Errorf("%d items have sizes, want those of %d connections", items, maxCallers)
	}
	if len(n.callers) > maxCallers || len(n.queues) > maxAsked || len(sum.by) > maxAsked {
		t.Errorf("%d connections, %d queues and %d kinds are kept", len(n.callers), len(n.queues), len(sum.by))
	}
	other := sum.by[AskedBy{"get", "busy", "others", "text"}]
	if other == nil || other.Requests != more {
		t.Errorf("of others: %+v, want %d requests", other, more)
	}
}

// TestSnifferAllocates nothing for a request of a kind that was seen before, and nothing while nobody listens.
func TestSnifferAllocates(t *testing.T) {
	l := new(loop)
	s := &session{loop: l, proto: memcacheProtocol{}, sink: peerOnly{addr: "10.0.0.1:5000"}}
	queue := []byte("work")
	ask := func() {
		s.asks("set", queue)
		s.asksAgain(3)
		s.puts(100)
		s.gets(100)
	}
	if n := testing.AllocsPerRun(100, ask); n != 0 {
		t.Errorf("%v allocations while nobody listens", n)
	}
	l.sniff = newSniffer(func(string) bool { return true })
	if n := testing.AllocsPerRun(100, ask); n > 1 { // the peer's host may be cut out of its address once
		t.Errorf("%v allocations for a request", n)
	}
}
