package worklist

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
)

// TestTake adds and takes in a random order: values come in the order in which they were added.
func TestTake(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	l, values := New[int](), make([]int, 10_000)
	for added, taken := 0, 0; taken < len(values); {
		if added < len(values) && rng.IntN(5) > 1 {
			l.Add(&values[added])
			added++
			continue
		}
		switch got := l.Take(); {
		case got == nil && added == taken:
		case got != &values[taken]:
			t.Fatalf("value %d of %d does not come in its turn", taken, added)
		default:
			taken++
		}
		if room := len(l.values); room > 2*(added-taken)+1 {
			t.Fatalf("%d values take room for %d", added-taken, room)
		}
	}
	if l.Take() != nil {
		t.Error("a value comes that was not added")
	}
}

// TestWork tests that Work handles what is added before and meanwhile, and then ends.
func TestWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, stop, values, handled := New[int](), make(chan struct{}), make([]int, 4), 0
		for i := range 3 { // more than one wake-up is for
			l.Add(&values[i])
		}
		go l.Work(stop, func(*int) { handled++ })
		synctest.Wait()
		l.Add(&values[3])
		synctest.Wait()
		close(stop)
		if synctest.Wait(); handled != len(values) {
			t.Errorf("%d values were handled, want %d", handled, len(values))
		}
	})
}
