package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// story is a lane that has put items 1 to 5 and taken two of them, one a second. All of its
// requests but the last were acknowledged.
func story(t *testing.T) *lane {
	l := newLane(newTestTrial(t, "", 1), "story", "memcache", "always")
	start := time.Unix(1000, 0)
	requests := []request{
		{op: opPut, queue: "story-a", items: []int{1}},
		{op: opPut, queue: "story-a", items: []int{2}},
		{op: opPut, queue: "story-b", items: []int{3}},
		{op: opGet, queue: "story-a", count: 1},
		{op: opPut, queue: "story-a", items: []int{4}},
		{op: opOpen, queue: "story-a"},
		{op: opConfirm, queue: "story-a", count: 1},
		{op: opPut, queue: "story-a", items: []int{5}},
	}
	for i, r := range requests {
		st := step{request: r}
		if i < len(requests)-1 {
			st.acked = start.Add(time.Duration(i+1) * time.Second)
			l.known.apply(r, func() {})
		}
		l.history = append(l.history, st)
	}
	l.next = 6
	return l
}

// TestLaneFound breaks the promises on purpose, in one way after the other: the checker must
// object, and must not object to what may be found.
func TestLaneFound(t *testing.T) {
	all := func(l *lane) int { return l.ackedBefore(time.Now()) }
	cut := time.Unix(1002, 500_000_000)
	early := func(l *lane) int { return l.ackedBefore(cut) }
	for _, tt := range []struct {
		name  string
		from  func(*lane) int
		found durable
		good  bool
	}{
		{"all that was acknowledged", all, durable{"story-a": {4}, "story-b": {3}}, true},
		{"the last put too", all, durable{"story-a": {4, 5}, "story-b": {3}}, true},
		{"an acknowledged put is lost", all, durable{"story-a": {4}}, false},
		{"the newest acknowledged put is lost", all, durable{"story-b": {3}}, false},
		{"a confirmed item is back", all, durable{"story-a": {2, 4}, "story-b": {3}}, false},
		{"a fetched item is back", all, durable{"story-a": {1, 4}, "story-b": {3}}, false},
		{"everything is gone", all, nil, false},
		{"a hole", early, durable{"story-a": {1, 4}, "story-b": {3}}, false},
		{"only what was acknowledged early", early, durable{"story-a": {1, 2}}, true},
		{"in the middle", early, durable{"story-a": {2, 4}, "story-b": {3}}, true},
		{"less than was acknowledged early", early, durable{"story-a": {1}}, false},
	} {
		l := story(t)
		l.found(tt.found, tt.from(l))
		if good := len(l.t.violations()) == 0; good != tt.good {
			t.Errorf("%s: objected %t, want %t: %v", tt.name, !good, !tt.good, l.t.violations())
		}
		if got := l.known.durable(); !got.equal(tt.found) {
			t.Errorf("%s: the lane goes on with %v, want %v", tt.name, got, tt.found)
		}
	}
}

// A put of many items, or to an alias, may be cut anywhere; one to a fanout queue must not be.
func TestLaneFoundInTheMiddle(t *testing.T) {
	alias := newLane(newTestTrial(t, "", 1), "alias", "memcache", "always")
	alias.route("alias", [][]string{{"alias-1"}, {"alias-2"}})
	fanout := newFanoutLane(newTestTrial(t, "", 1), "fan", "always")
	many := newLane(newTestTrial(t, "", 1), "many", "thrift", "always")
	for _, tt := range []struct {
		lane  *lane
		put   request
		found durable
		good  bool
	}{
		{alias, request{op: opPut, queue: "alias", items: []int{1}}, durable{"alias-1": {1}}, true},
		{alias, request{op: opPut, queue: "alias", items: []int{1}}, durable{"alias-2": {1}}, false},
		{fanout, request{op: opPut, queue: "fan", items: []int{1}}, durable{"fan": {1}}, false},
		{fanout, request{op: opPut, queue: "fan", items: []int{1}}, durable{"fan+x": {1}}, false},
		{many, request{op: opPut, queue: "many-a", items: []int{1, 2}}, durable{"many-a": {1}}, true},
		{many, request{op: opPut, queue: "many-a", items: []int{1, 2}}, durable{"many-a": {2}}, false},
	} {
		l := *tt.lane
		l.t = newTestTrial(t, "", 1)
		l.base = newModel(l.routes)
		l.history = []step{{request: tt.put}}
		l.found(tt.found, 0)
		if good := len(l.t.violations()) == 0; good != tt.good {
			t.Errorf("%v of %v: objected %t, want %t", tt.found, tt.put, !good, !tt.good)
		}
	}
}

func TestLaneBodies(t *testing.T) {
	l := newLane(newTestTrial(t, "", 1), "story", "text", "always")
	l.next = 10
	if item, err := l.itemOf(l.body(7)); item != 7 || err != nil {
		t.Errorf("itemOf(body(7)) = %d, %v", item, err)
	}
	if body := l.body(7); slices.Contains(body, '\n') {
		t.Errorf("a body of the text protocol has a line end: %q", body)
	}
	flipped := l.body(7)
	flipped[len(flipped)-2] ^= 1
	for _, tt := range []struct {
		body []byte
		want string
	}{
		{flipped, "other bytes"},
		{l.body(7)[:len(l.body(7))-1], "other bytes"},
		{l.body(10), "never put"},
		{[]byte("other/1/x."), "foreign"},
		{nil, "foreign"},
	} {
		if item, err := l.itemOf(tt.body); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("itemOf(%.20q) = %d, %v, want an error with %q", tt.body, item, err, tt.want)
		}
	}
}

// The checker of expiry must object to what it is for.
func TestExpiringCheck(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name  string
		queue string
		put   expiring
		taken bool
		sent  time.Time
		good  bool
	}{
		{"in time", "expiring", expiring{now, now}, false, now.Add(expiryAge / 2), true},
		{"late", "expiring", expiring{now, now}, false, now.Add(2 * expiryAge), false},
		{"expired", "expired", expiring{now.Add(-2 * expiryAge), now}, false, now, true},
		{"expired early", "expired", expiring{now, now}, false, now, false},
		{"again", "expiring", expiring{now, now}, true, now, false},
	} {
		e := newExpiringLane(newTestTrial(t, "", 1))
		e.lane.next, e.items[1], e.taken[1] = 2, &tt.put, tt.taken
		if _, ok := e.check(tt.queue, e.lane.body(1), tt.sent); ok != tt.good {
			t.Errorf("%s: accepted %t, want %t: %v", tt.name, ok, tt.good, e.lane.t.violations())
		}
	}
}
