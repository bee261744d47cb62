package client

import "testing"

// TestLaneWithdrawMakesRoom: a call that is withdrawn leaves its room to those who wait for it. They would wait until
// somebody else puts.
func TestLaneWithdrawMakesRoom(t *testing.T) {
	l := &lane{kick: make(chan struct{}, 1), room: make(chan struct{})}
	large := &call{n: 1}
	l.add(large, func(dst []byte) []byte { return append(dst, make([]byte, laneRoom)...) })
	room, ok := l.add(&call{n: 1}, func(dst []byte) []byte { return append(dst, "x"...) })
	if room == nil || !ok {
		t.Fatalf("a full lane takes more: %v, %t", room, ok)
	}
	if !l.withdraw(large) {
		t.Fatal("the call cannot be withdrawn")
	}
	select {
	case <-room:
	default:
		t.Error("there is room, and nobody hears of it")
	}
}
