package admin

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/access"
)

// ask begins a request of alice. What comes back goes to the channel when it is whole, or broken off.
func ask(t *testing.T, url string) <-chan answer {
	t.Helper()
	came := make(chan answer, 1)
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("alice", "right")
	go func() {
		defer cancel()
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			came <- answer{body: err.Error()}
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		came <- answer{code: resp.StatusCode, body: string(body)}
	}()
	return came
}

// TestRevoked tests that a request which lasts ends when a reload takes its user, or its right, and only then.
func TestRevoked(t *testing.T) {
	for _, tt := range []struct {
		name  string
		path  string
		allow []string // after the reload; nil: the user is gone
		want  string
	}{
		{"the right to listen", "/sniff?seconds=300", []string{"stats *", "get *"}, "not allowed: stats,operate on all queues"},
		{"the user who listens", "/sniff?seconds=300", nil, "not allowed: stats,operate on all queues"},
		{"the right to a profile", "/pprof/contention?seconds=300", []string{"stats *"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server, checker := startRights(t)
			give := func(allow ...string) {
				list := []*access.User{grants(t, "bob", "stats *")}
				if allow != nil {
					list = append(list, grants(t, "alice", allow...))
				}
				users, err := access.NewUsers(list)
				if err != nil {
					t.Fatal(err)
				}
				checker.SetUsers(users)
				server.admin.Reidentify()
			}
			give("operate", "stats *", "get *")
			came := ask(t, "http://"+server.admin.Addr().String()+tt.path)
			for begun, until := false, time.Now().Add(testDeadline); !begun; {
				server.admin.watching.Lock()
				begun = len(server.admin.watched) > 0
				server.admin.watching.Unlock()
				if time.Now().After(until) {
					t.Fatal("the request has not begun")
				}
			}
			give("operate", "stats *") // what it has no need of
			select {
			case got := <-came:
				t.Fatalf("it ends though its right is left: %d %q", got.code, got.body)
			default:
			}
			give(tt.allow...)
			if got := <-came; !strings.HasPrefix(got.body, tt.want) || len(got.body) > 100 {
				t.Errorf("it ends with %d %q", got.code, got.body)
			}
		})
	}
}

// TestRevokedBackup tests the same of a backup: what its client has is no archive.
func TestRevokedBackup(t *testing.T) {
	server, checker := startRights(t)
	for range 8 { // more than sockets take
		server.put("large", strings.Repeat("x", 4<<20))
	}
	give := func(allow ...string) {
		users, err := access.NewUsers([]*access.User{grants(t, "alice", allow...)})
		if err != nil {
			t.Fatal(err)
		}
		checker.SetUsers(users)
		server.admin.Reidentify()
	}
	for _, kept := range []bool{true, false} {
		give("operate", "stats *", "get *")
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+server.admin.Addr().String()+"/backup?pace=full", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("alice", "right")
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if !kept {
			give("operate", "stats *")
		}
		n, err := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if whole := err == nil; resp.StatusCode != http.StatusOK || whole != kept {
			t.Errorf("the right is left: %t; status %d, %d bytes, %v", kept, resp.StatusCode, n, err)
		}
	}
}
