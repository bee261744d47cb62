package access

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestReloadDuringCheck tests that an attempt which a reload overtakes counts by the users of now. A build that answers
// by those of its beginning lets a user in that is gone, with an old password, or with old rights.
func TestReloadDuringCheck(t *testing.T) {
	before := func() *User { return user(t, "alice", "right", "put *", "operate") }
	same := before()
	for _, tt := range []struct {
		name  string
		after []*User
		want  error
	}{
		{"the user is gone", []*User{user(t, "bob", "right")}, ErrFailed},
		{"the password is another one", []*User{user(t, "alice", "other", "put *", "operate")}, ErrFailed},
		{"the user has no password any more", []*User{{Name: "alice"}}, ErrFailed},
		{"the hash is another one", []*User{{Name: "alice", Password: hashWith([]byte("right"), 8, 1, []byte("pepper"))}}, nil},
		{"rights are gone", []*User{{Name: "alice", Password: same.Password, Allow: same.Allow[:1]}}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := NewChecker(users(t, same, user(t, "bob", "right")), Options{FreeFailures: 1})
			if _, err := c.Password(t.Context(), "here", "alice", []byte("wrong")); err != ErrFailed {
				t.Fatal(err)
			}
			var u *User
			var err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				u, err = c.Password(t.Context(), "here", "alice", []byte("right"))
			}()
			synctest.Wait() // it waits, because of the failure before it
			now := users(t, tt.after...)
			c.SetUsers(now)
			start := time.Now()
			<-done
			if time.Since(start) == 0 {
				t.Errorf("%s: the attempt had ended before the reload", tt.name)
			}
			if err != tt.want {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			}
			if err == nil && u != now.Named("alice") {
				t.Errorf("%s: the user is that of before", tt.name)
			}
		})
	}
}
