package overhttp

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/client/backend"
)

// TestEndlessReply has a server answer with more than any answer has. The caller keeps no more than a bound of it. A list
// that is longer than the bound, of messages that are not, is read to its end.
func TestEndlessReply(t *testing.T) {
	const most = 1 << 16
	q := backend.Queue{Account: "a", Name: "q"}
	k := backend.Key{Queue: q, ID: "m"}
	long := strings.Repeat("x", 4*most)
	list := func(m backend.Match) func(ctx context.Context, r *Remote) (int, error) {
		return func(ctx context.Context, r *Remote) (int, error) {
			all, err := backend.Collect(r.Messages(ctx, q, m))
			return len(all), err
		}
	}
	one := func(ctx context.Context, r *Remote) (int, error) {
		_, err := r.Message(ctx, k, backend.All)
		return 0, err
	}
	names := func(ctx context.Context, r *Remote) (int, error) {
		all, err := r.Accounts(ctx, backend.Names{})
		return len(all), err
	}
	remove := func(ctx context.Context, r *Remote) (int, error) {
		all, err := r.DeleteMessages(ctx, q, backend.Match{Detail: backend.IDs, Limit: 2})
		return len(all), err
	}
	for _, tt := range []struct {
		name, answer string
		call         func(ctx context.Context, r *Remote) (int, error)
		want         error
		count        int
	}{
		{"a list of any length", "[" + strings.Repeat(`"m",`, most) + `"m"]`, list(backend.Match{Detail: backend.IDs}), nil, most + 1},
		{"a long message of a list", `["m",{"id":"` + long + `"}]`, list(backend.Match{Detail: backend.IDs}), backend.ErrUnavailable, 1},
		{"spaces in a list", `["m",` + strings.Repeat(" ", 4*most) + `"m"]`, list(backend.Match{Detail: backend.IDs}), backend.ErrUnavailable, 1},
		{"spaces before a list", strings.Repeat(" ", 4*most) + `["m"]`, list(backend.Match{Detail: backend.IDs}), backend.ErrUnavailable, 0},
		{"more than asked for", `["m","m","m"]`, list(backend.Match{Detail: backend.IDs, Limit: 2}), backend.ErrUnavailable, 2},
		{"a long message", `{"id":"m","body":"` + long + `"}`, one, backend.ErrUnavailable, 0},
		{"a long list of names", "[" + strings.Repeat(`"m",`, most) + `"m"]`, names, backend.ErrUnavailable, 0},
		{"more removed than asked for", `["m","m","m"]`, remove, backend.ErrUnknownOutcome, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, end := answers(t, answerOf(200, "", tt.answer))
				defer end()
				r.most = most
				count, err := tt.call(t.Context(), r)
				if !errors.Is(err, tt.want) || (tt.want != nil) != errors.Is(err, backend.ErrReplyTooLarge) || count != tt.count {
					t.Errorf("%d and %v, want %d and %v", count, err, tt.count, tt.want)
				}
			})
		})
	}
}
