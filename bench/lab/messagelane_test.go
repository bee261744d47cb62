package main

import (
	"strings"
	"testing"
	"time"
)

// fakeTalk is a server that answers what a test wants.
type fakeTalk struct {
	data []byte // nil: no item
	err  error  // of end
}

func (f fakeTalk) put(string, []byte, time.Duration) error { return f.err }

func (f fakeTalk) lease(string, time.Duration) ([]byte, uint64, error) {
	data, err := f.take("")
	return data, 7, err
}

func (f fakeTalk) take(string) ([]byte, error) {
	if f.data == nil && f.err == nil {
		return nil, errNothing
	}
	return f.data, f.err
}

func (f fakeTalk) end(string, uint64, leaseEnd, time.Duration) error { return f.err }

// TestMessageLaneClock starts servers whose clocks are set back and forward: the checker must know what may come then,
// and what must.
func TestMessageLaneClock(t *testing.T) {
	const hour = time.Hour
	for _, tt := range []struct {
		name  string
		item  message
		steps []time.Duration
		early bool // it must not come yet
		there bool // it must be there
	}{
		{"in line", message{}, []time.Duration{-5 * hour}, false, true},
		{"delayed", message{early: time.Now().Add(hour), hidden: true}, []time.Duration{0}, true, false},
		{"delayed, set back", message{early: time.Now().Add(hour), hidden: true}, []time.Duration{-hour}, true, false},
		{"delayed, set forward", message{early: time.Now().Add(hour), hidden: true}, []time.Duration{2 * hour}, false, true},
		{"was due, set back", message{early: time.Now().Add(hour), hidden: true}, []time.Duration{2 * hour, 0}, false, false},
	} {
		l := newMessageLane(newTestTrial(t, "", 1), "memcache", "always")
		m := tt.item
		m.late = m.early
		l.items[1] = &m
		for _, off := range tt.steps {
			l.start(off)
		}
		if early := l.now().Before(m.early); early != tt.early {
			t.Errorf("%s: it must not come yet: %v, want %v", tt.name, early, tt.early)
		}
		if there := !l.now().Before(m.late); there != tt.there {
			t.Errorf("%s: it must be there: %v, want %v", tt.name, there, tt.there)
		}
	}
}

// TestMessageLane breaks each promise about delays, leases and dead letters by hand: the checker must object, and must
// not object to what may be.
func TestMessageLane(t *testing.T) {
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	inLine := message{early: past, late: past}
	hidden := message{early: future, late: future}
	leased := message{early: future, late: future, receipt: 7}
	lapsed := message{early: past, late: past, receipt: 7}
	dead := message{dead: true}
	for _, tt := range []struct {
		name string
		item message
		do   func(*messageLane, []byte) // the lane has one item, with these bytes
		want string                     // part of the violation; "" for none
	}{
		{"an item in line is there", inLine, findIn(1, 0), ""},
		{"one in line is missing", inLine, findIn(0, 0), "are missing"},
		{"one in line that a fetch may have taken", inLine, func(l *messageLane, _ []byte) {
			l.asked = 1
			l.found(nil, nil, time.Now())
			l.found(nil, nil, time.Now())
		}, ""},
		{"a delayed item is not there", hidden, findIn(0, 0), ""},
		{"a delayed item comes early", hidden, findIn(1, 0), "is hidden, or leased"},
		{"a leased item comes", leased, findIn(1, 0), "is hidden, or leased"},
		{"a leased item is handed out again", leased, func(l *messageLane, b []byte) {
			l.lease(fakeTalk{data: b}, time.Second)
		}, "is hidden, or leased"},
		{"the receipt of a lease is forgotten", leased, func(l *messageLane, _ []byte) {
			l.end(fakeTalk{err: errNotHeld}, 1, leaseConfirm, 0)
		}, "not held"},
		{"that of one that has lapsed", lapsed, func(l *messageLane, _ []byte) {
			l.end(fakeTalk{err: errNotHeld}, 1, leaseConfirm, 0)
		}, ""},
		{"a confirmed item is back", leased, func(l *messageLane, _ []byte) {
			l.end(fakeTalk{}, 1, leaseConfirm, 0)
			l.found([]int{1}, nil, time.Now())
		}, "removed for good"},
		{"a confirm that was not answered", leased, func(l *messageLane, _ []byte) {
			l.end(fakeTalk{err: errNothing}, 1, leaseConfirm, 0)
			l.found([]int{1}, nil, time.Now())
		}, ""},
		{"a rejected item is a dead letter", leased, func(l *messageLane, _ []byte) {
			l.end(fakeTalk{}, 1, leaseReject, 0)
			l.found(nil, []int{1}, time.Now())
		}, ""},
		{"a rejected item is in its queue", leased, func(l *messageLane, _ []byte) {
			l.end(fakeTalk{}, 1, leaseReject, 0)
			l.found([]int{1}, nil, time.Now())
		}, "is a dead letter, and is in its queue"},
		{"a dead letter is missing", dead, findIn(0, 0), "items are missing"},
		{"a dead letter is in both", dead, findIn(1, 1), "twice"},
		{"a dead letter without a reason", inLine, findIn(0, 1), "after 0 deliveries"},
		{"one of many aborts", leased, func(l *messageLane, b []byte) {
			for range maxDeliveries {
				l.items[1].early = time.Time{}
				l.lease(fakeTalk{data: b}, time.Hour)
				l.end(fakeTalk{}, 1, leaseAbort, 0)
			}
			l.found(nil, []int{1}, time.Now())
		}, ""},
		{"a fetch misses an item", inLine, func(l *messageLane, _ []byte) { l.lease(fakeTalk{}, time.Second) }, "gets nothing"},
		{"a fetch misses an item that may have become a dead letter", inLine, func(l *messageLane, _ []byte) {
			for range maxDeliveries { // each inspection gives it back, delivered once more
				l.found([]int{1}, nil, time.Now())
			}
			l.items[1].late = past
			l.lease(fakeTalk{}, time.Second)
			l.found(nil, []int{1}, time.Now())
		}, ""},
		{"a fetch misses a dead letter", dead, func(l *messageLane, _ []byte) { l.take(fakeTalk{}) }, "has nothing"},
		{"a dead letter that was taken is back", dead, func(l *messageLane, b []byte) {
			l.take(fakeTalk{data: b})
			l.found(nil, []int{1}, time.Now())
		}, "removed for good"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTestTrial(t, "", 1)
			l := newMessageLane(tr, "memcache", "always")
			l.next, l.bodies.next = 2, 2
			m := tt.item
			l.items[1] = &m
			tt.do(l, l.bodies.body(1))
			got := strings.Join(tr.violations(), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("violations are %q, want %q", got, tt.want)
			}
		})
	}
}

// findIn has the item found so often in its queue, and among the dead letters.
func findIn(queued, dead int) func(*messageLane, []byte) {
	return func(l *messageLane, _ []byte) {
		l.found([]int{1}[:queued], []int{1}[:dead], time.Now())
	}
}
