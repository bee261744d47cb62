package main

import (
	"net"
	"strings"
	"testing"
)

// A server that refuses to hand out what it holds has lost it: that is a violation, not a fault of
// the lab, which would end the run and pass over what was broken.
func TestInspectRefused(t *testing.T) {
	tr := newTestTrial(t, "", 1)
	own, peer := net.Pipe()
	defer own.Close()
	go func() {
		defer peer.Close()
		peer.Read(make([]byte, 1<<16)) // all requests, in one piece
		peer.Write([]byte(strings.Repeat("SERVER_ERROR backlog cannot be read\r\n", openAtOnce)))
	}()
	v := &inspection{tr, &client{conn: own, speaker: speakers()["memcache"]}}
	l := standardLanes(tr)[0]
	if items, err := v.queue(l, l.queues[0]); err == nil {
		t.Errorf("a queue that cannot be opened holds %v", items)
	}
	if got := tr.violations(); len(got) != 1 || !strings.Contains(got[0], "backlog cannot be read") {
		t.Errorf("violations = %q, want one that says what was refused", got)
	}
}
