package access

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// attempts makes n attempts of one address at once and returns how many passed, failed and were not checked.
func attempts(t *testing.T, c *Checker, n int, who func(i int) (name, password string)) (passed, failed, busy int) {
	outcomes := make(chan error, n)
	for i := range n {
		go func() {
			name, password := who(i)
			_, err := c.Password(t.Context(), "here", name, []byte(password))
			outcomes <- err
		}()
	}
	for range n {
		switch err := <-outcomes; err {
		case nil:
			passed++
		case ErrFailed:
			failed++
		case ErrBusy:
			busy++
		default:
			t.Errorf("attempt: %v", err)
		}
	}
	if c.waiting.Load() != 0 {
		t.Errorf("%d attempts are still counted", c.waiting.Load())
	}
	return passed, failed, busy
}

// TestBurstOfGuesses tests that an address which nothing is known of has no more guesses at once than one behind the
// other. A build that looks at failures only when an attempt begins checks all of them.
func TestBurstOfGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewChecker(users(t, user(t, "alice", "right")), Options{Parallel: 2})
		start := time.Now()
		_, failed, busy := attempts(t, c, maxChecked, func(i int) (string, string) { return "alice", fmt.Sprint("guess", i) })
		// Three are free. The others wait 0.1, 0.3, 0.7, 1.5 and 3.1 s, and a next one would have to wait 6.3 s.
		if failed != DefaultFreeFailures+5 || busy != maxChecked-failed {
			t.Errorf("%d guesses were checked and %d were not, in %v", failed, busy, time.Since(start))
		}
		time.Sleep(forgetTime + time.Second) // of the bubble
		if _, failed, _ := attempts(t, c, maxChecked, func(int) (string, string) { return "nobody", "guess" }); failed > DefaultFreeFailures+5 {
			t.Errorf("%d guesses were checked when the failures of before had been forgotten", failed)
		}
	})
}

// TestBurstOfLogins tests that the same bound costs clients with the right password nothing. They are all of one user,
// or of many users behind one address, as after a restart.
func TestBurstOfLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := []*User{user(t, "alice", "right")}
		for i := range 50 {
			list = append(list, user(t, fmt.Sprint("user", i), "right"))
		}
		c := NewChecker(users(t, list...), Options{Parallel: 8})
		start := time.Now()
		if passed, _, _ := attempts(t, c, maxChecked, func(int) (string, string) { return "alice", "right" }); passed != maxChecked {
			t.Errorf("%d of %d logins of one user passed", passed, maxChecked)
		}
		if passed, _, _ := attempts(t, c, 50, func(i int) (string, string) { return fmt.Sprint("user", i), "right" }); passed != 50 {
			t.Errorf("%d of 50 users passed", passed)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("they were delayed by %v", took)
		}
		if len(c.addresses) != 0 {
			t.Errorf("%d addresses are remembered, of which nothing failed", len(c.addresses))
		}
	})
}

// TestGuessesKeepNobodyOut tests that a user whose address has not failed gets in while many addresses guess without
// end. A build with one bound for all attempts has no room for the user as long as they wait.
func TestGuessesKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := []*User{user(t, "alice", "right")}
		for i := range 5 {
			list = append(list, user(t, fmt.Sprint("user", i), "right"))
		}
		c := NewChecker(users(t, list...), Options{Parallel: 2})
		end := time.Now().Add(20 * time.Second)
		for address := range 400 {
			for range 2 {
				go func() {
					for time.Now().Before(end) {
						c.Password(t.Context(), fmt.Sprint("there", address), "alice", []byte("wrong"))
						time.Sleep(200 * time.Millisecond) // of the bubble
					}
				}()
			}
		}
		time.Sleep(12 * time.Second)
		for i := range 5 {
			start := time.Now()
			if _, err := c.Password(t.Context(), "here", fmt.Sprint("user", i), []byte("right")); err != nil {
				t.Errorf("user%d: %v", i, err)
			} else if took := time.Since(start); took > time.Second {
				t.Errorf("user%d gets in after %v", i, took)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		if n := c.waiting.Load() + c.slowed.Load(); n != 0 {
			t.Errorf("%d attempts are still counted", n)
		}
	})
}
