package client

import (
	"testing"
	"time"
)

// TestBackoffOfOneField checks how long a Backoff waits behind each failure, also one of which a program has set one field alone: it
// always waits.
func TestBackoffOfOneField(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		b    Backoff
		want []time.Duration // behind the 1st, 2nd, 3rd and 100th failure, or up to a quarter less
	}{
		{Backoff{First: 50 * ms, Most: 150 * ms}, []time.Duration{50 * ms, 100 * ms, 150 * ms, 150 * ms}},
		{Backoff{First: 50 * ms}, []time.Duration{50 * ms, 50 * ms, 50 * ms, 50 * ms}},
		{Backoff{First: 50 * ms, Most: 20 * ms}, []time.Duration{50 * ms, 50 * ms, 50 * ms, 50 * ms}},
		{Backoff{Most: time.Second}, []time.Duration{ms, 2 * ms, 4 * ms, time.Second}},
	} {
		for i, n := range []int{1, 2, 3, 100} {
			if got := tt.b.After(n); got > tt.want[i] || got < tt.want[i]*3/4 {
				t.Errorf("%+v behind failure %d = %v, want %v", tt.b, n, got, tt.want[i])
			}
		}
	}
}
