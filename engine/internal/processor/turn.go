package processor

import (
	"iter"
	"sync"
)

// Turn is how many values InTurn yields between two pauses: some 50 µs of work, if each takes little.
const Turn = 256

// InTurn yields all, and calls pause now and then. A walk past several lists counts in passed what it has passed.
func InTurn[T any](all []T, passed *int, pause func()) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, v := range all {
			if *passed++; *passed%Turn == 0 {
				pause()
			}
			if !yield(v) {
				return
			}
		}
	}
}

// EachInPieces calls f for all with mu locked, and pause now and then, with mu unlocked.
func EachInPieces[T any](mu sync.Locker, pause func(), all []T, f func(T)) {
	InPieces(mu, pause, func() (more bool) {
		n := min(len(all), Turn)
		for _, v := range all[:n] {
			f(v)
		}
		all = all[n:]
		return len(all) > 0
	})
}

// InPieces calls piece with mu locked as long as it reports that there may be more, and pause between two pieces.
func InPieces(mu sync.Locker, pause func(), piece func() (more bool)) {
	locked := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return piece()
	}
	for locked() {
		pause()
	}
}
