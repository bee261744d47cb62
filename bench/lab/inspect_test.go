package main

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
)

// A server that refuses to hand out what it holds has lost it. That is a violation, not a fault of the lab, which would
// end the run and pass over what was broken.
func TestInspectRefused(t *testing.T) {
	tr := newTestTrial(t, "", 1)
	own, peer := net.Pipe()
	defer own.Close()
	go func() {
		defer peer.Close()
		peer.Read(make([]byte, 1<<16)) // all requests, in one piece
		peer.Write([]byte(strings.Repeat("SERVER_ERROR backlog cannot be read\r\n", openAtOnce)))
	}()
	v := &inspection{t: tr, c: &client{conn: own, speaker: speakers()["memcache"]}}
	l := standardLanes(tr)[0]
	if items, err := v.queue(l, l.queues[0]); err == nil {
		t.Errorf("a queue that cannot be opened holds %v", items)
	}
	if got := tr.violations(); len(got) != 1 || !strings.Contains(got[0], "backlog cannot be read") {
		t.Errorf("violations = %q, want one that says what was refused", got)
	}
}

// A queue that says that it is empty, and is not, turns clients away. Another one may fill meanwhile.
func TestInspectFalselyEmpty(t *testing.T) {
	for _, arriving := range []bool{false, true} {
		tr := newTestTrial(t, "", 1)
		own, peer := net.Pipe()
		defer own.Close()
		l := standardLanes(tr)[0]
		l.next = 3
		go func() {
			defer peer.Close()
			peer.Read(make([]byte, 1<<16))
			replies := value(l, 1) + "END\r\n" + value(l, 2)
			peer.Write([]byte(replies + strings.Repeat("END\r\n", openAtOnce-3)))
		}()
		v := &inspection{t: tr, c: &client{conn: own, speaker: speakers()["memcache"]}, arriving: arriving}
		if items, err := v.queue(l, l.queues[0]); err != nil || !slices.Equal(items, []int{1, 2}) {
			t.Errorf("the queue holds %v, %v, want items 1 and 2", items, err)
		}
		got := tr.violations()
		if arriving && len(got) > 0 {
			t.Errorf("a queue that fills is taken for broken: %q", got)
		}
		if !arriving && (len(got) != 1 || !strings.Contains(got[0], "then hands out item 2")) {
			t.Errorf("violations = %q, want one of a queue that was not empty", got)
		}
	}
}

// value is the reply of a memcache server that hands out an item of the lane.
func value(l *lane, item int) string {
	body := l.body(item)
	return fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\nEND\r\n", l.queues[0], len(body), body)
}
