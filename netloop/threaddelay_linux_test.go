package netloop

import "testing"

// TestThreadDelay tests what the kernel's figures mean, and that reading them allocates nothing.
func TestThreadDelay(t *testing.T) {
	for _, tt := range []struct {
		text string
		want int64
		ok   bool
	}{
		{"532286036 960416 22\n", 960416, true},
		{"0 0 0\n", 0, true},
		{"12\n", 0, false},
		{"", 0, false},
	} {
		if got, ok := secondNumber([]byte(tt.text)); got != tt.want || ok != tt.ok {
			t.Errorf("secondNumber(%q) = %d, %v, want %d, %v", tt.text, got, ok, tt.want, tt.ok)
		}
	}
	now, other := threadDelay{1, 9, true}, threadDelay{2, 4, true}
	if got := now.since(other); got != 0 {
		t.Errorf("since another thread's figure: %v, want 0", got)
	}
	if got := now.since(threadDelay{1, 4, true}); got != 5 {
		t.Errorf("since a figure of 4: %v, want 5", got)
	}
	if own := readThreadDelay(ownThread); !own.known || !readThreadDelay(own.thread).known {
		t.Errorf("the figure of thread %d is not there", own.thread)
	}
	if allocs := testing.AllocsPerRun(100, func() { readThreadDelay(ownThread) }); allocs != 0 {
		t.Errorf("reading the figures allocates %v times", allocs)
	}
}
