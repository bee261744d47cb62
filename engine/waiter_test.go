package engine

import "testing"

func TestWaiters(t *testing.T) {
	runScripts(t, []scriptTest{
		{"4.7 waiters are first come, first served; a put wakes exactly one", `
			wait q get w1 -> waiting
			wait q get w2 -> waiting
			wait q open w3 -> waiting
			stats q waiters -> 3
			put q a
			notified -> notified w1
			put q b
			put q c
			notified -> notified w2 w3
			collect w3 -> c
			collect w1 -> a
			collect w2 -> b
			stats q waiters open items -> 0 1 0
			kill
			items q -> c`},
		{"4.7 a reader that arrives when an item is there takes it at once", `
			put q a
			wait q get w -> a`},
		{"4.7 a return wakes exactly one", `
			put q a
			open q r -> a
			wait q get w1 -> waiting
			wait q get w2 -> waiting
			abort r
			notified -> notified w1
			collect w1 -> a`},
		{"4.7 cancelled waiters leave the line", `
			wait q get w1 -> waiting
			wait q get w2 -> waiting
			wait q get w3 -> waiting
			cancel w2
			cancel w1
			cancel w1 -> ended
			put q a
			notified -> notified w3
			cancel w3 -> ended
			collect w3 -> a
			stats q waiters -> 0`},
		{"4.7 a waiter that vanishes after it was notified loses nothing", `
			put q x
			open q r -> x
			wait q get w -> waiting
			wait q get w2 -> waiting
			abort r
			put q b
			notified -> notified w w2
			drop w
			items q -> x
			drop w -> ended
			collect w -> ended
			collect w2 -> b`},
		{"4.7 what a vanished waiter had goes to the next", `
			wait q get w1 -> waiting
			wait q get w2 -> waiting
			put q a
			drop w1
			notified -> notified w1 w2
			collect w2 -> a`},
		{"a get that was notified but not collected survives a kill as an item", `
			wait q get w1 -> waiting
			put q a
			stats q items open -> 0 1
			kill
			items q -> a`},
		{"a collected get is not undone", `
			wait q get w1 -> waiting
			put q a
			collect w1 -> a
			collect w1 -> ended
			kill
			items q ->`},
		{"4.7 quirk: a waiting peek does not use up a wake-up", `
			wait q peek w1 -> waiting
			wait q peek w2 -> waiting
			wait q get w3 -> waiting
			wait q peek w4 -> waiting
			put q a
			notified -> notified w1 w2 w3
			collect w1 -> a
			collect w3 -> a
			collect w2 -> a
			put q b
			notified -> notified w4
			drop w4
			items q -> b`},
		{"4.7 a deleted queue ends its waits", `
			wait q get w1 -> waiting
			wait q open w2 -> waiting
			delete q
			notified -> notified w1 w2
			collect w1 -> nothing
			put q a
			items q -> a
			cancel w2 -> ended`},
		{"a queue deleted after the hand-over takes the item along", `
			wait q get w1 -> waiting
			wait q peek w2 -> waiting
			put q a
			drop w1
			notified -> notified w1 w2
			delete q
			collect w1 -> ended
			collect w2 -> a`},
		{"4.9 flush does not wake waiters", `
			wait q get w1 -> waiting
			flush q
			notified -> notified
			put q a
			notified -> notified w1`},
		{"an expired put is not handed to a waiter", `
			wait q get w1 -> waiting
			put q a expiry=-1s
			notified -> notified
			stats q items expired -> 0 1
			put q b
			collect w1 -> b`},
		{"an item that comes back expired is not handed to a waiter", `
			put q a expiry=+1s
			open q r -> a
			wait q get w1 -> waiting
			after 2s
			abort r
			notified -> notified
			stats q items expired -> 0 1`},
		{"fanout puts wake waiters of children", `
			wait p+a get w1 -> waiting
			wait p+b open w2 -> waiting
			wait p get w3 -> waiting
			put p x
			notified -> notified w1 w2 w3
			collect w1 -> x
			collect w2 -> x
			collect w3 -> x`},
		{"an item that expires into a queue wakes its waiters", `
			set q expire_to=dead
			wait dead get w1 -> waiting
			put q a expiry=+1s
			after 2s
			flushexpired q -> 1
			notified -> notified w1
			collect w1 -> a`},
		{"4.3 nobody waits for an alias", `
			alias x q
			wait x get w1 -> empty
			stats q waiters -> none`},
		{"4.10 the dequeue list holds for waits, not for waiting peeks", `
			set q dequeue_client=me
			wait q get w1 -> not admitted
			wait q peek w2 -> waiting`},
		{"counters of waits", `
			wait q get w1 -> waiting
			wait q open w2 -> waiting
			wait q peek w3 -> waiting
			put q a
			put q b
			put q c
			stats q hits misses opens -> 3 3 1`},
	})
}
