package processor

import "iter"

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
