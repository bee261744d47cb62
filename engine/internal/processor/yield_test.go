package processor

import "testing"

// TestYield tests that other goroutines run meanwhile, on a single processor as well.
func TestYield(t *testing.T) {
	ran := false
	done := make(chan struct{})
	go func() {
		ran = true
		close(done)
	}()
	for range 1_000_000 {
		Yield()
		select {
		case <-done:
			if !ran {
				t.Fatal("done, and did not run")
			}
			return
		default:
		}
	}
	t.Fatal("another goroutine did not run")
}

func BenchmarkYield(b *testing.B) {
	for b.Loop() {
		Yield()
	}
}
