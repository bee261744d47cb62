package netloop

import (
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/access"
)

// These tests are a user who goes on with what it began after a reload has taken its right.

// regrant makes alice, with those rights and the quota of before, the only user, and has connections look her up.
func (qs *quotaServer) regrant(allow ...string) {
	alice := grants(qs.t, "alice", allow...)
	alice.Quota = qs.checker.Users().Named("alice").Quota
	users := usersOf(qs.t, alice)
	qs.checker.SetUsers(users)
	qs.do(func() {
		qs.loop.begin()
		for s := qs.loop.sessions.head; s != nil; {
			next := s.newerIdle
			s.reidentify(users)
			s = next
		}
		qs.loop.tick()
	})
}

// TestRevokedTextPut tests that the lines of a put which has begun are not stored any more, and that the end of the
// request says why.
func TestRevokedTextPut(t *testing.T) {
	for _, tt := range []struct{ name, next string }{
		{"a line of its own", "after\n"},
		{"the rest of a line", "er\n"},
	} {
		withQuota(t, access.Quota{Waits: 1}, func(t *testing.T, qs *quotaServer) {
			a := qs.as(textProtocol{}, "alice")
			begin := "put work:\nbefore\n"
			if !strings.HasPrefix(tt.next, "after") {
				begin += "aft"
			}
			if got := a.say(begin); got != "" {
				t.Fatalf("%s: %q", tt.name, got)
			}
			qs.regrant("get *")
			if got := a.say(tt.next + "more\n\n"); got != "-not allowed: put on work\n" {
				t.Errorf("%s: a put whose right is gone ends with %q", tt.name, got)
			}
			if got := qs.items("work"); got != 1 {
				t.Errorf("%s: %d items are stored, want that which came before the reload", tt.name, got)
			}
			if got := a.say("get work\n"); got != ":before\n" {
				t.Errorf("%s: the next request: %q", tt.name, got)
			}
			a.hangUp()
		})
	}
}

// TestRevokedTextConfirm tests that a request which is allowed, or refused, does not confirm on the way what the user may
// not remove any more.
func TestRevokedTextConfirm(t *testing.T) {
	for _, tt := range []struct{ name, grants, request, want string }{
		{"a peek", "peek *", "peek work\n", ":two\n"},
		{"a get of several queues", "get other", "get other or=work\n", "-not allowed: get on work\n"},
	} {
		withQuota(t, access.Quota{Waits: 1}, func(t *testing.T, qs *quotaServer) {
			a := qs.as(textProtocol{}, "alice")
			a.say("put work:\none\ntwo\n\n")
			if got := a.say("get work\n"); got != ":one\n" {
				t.Fatal(got)
			}
			qs.regrant(tt.grants)
			if got := a.say(tt.request); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
			a.hangUp()
			if got := qs.items("work"); got != 2 {
				t.Errorf("%s: %d items are left, want both", tt.name, got)
			}
		})
	}
}
