package overhttp

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
)

// losing is a back end that removes a message, and whose answer gets lost when the wait for it is ended.
type losing struct{ backend.Backend }

func (losing) DeleteMessages(ctx context.Context, _ backend.Queue, m backend.Match) ([]backend.Message, error) {
	if m.Wait == 0 {
		return nil, backend.ErrNoMessage // the wait has taken it
	}
	<-ctx.Done()
	return nil, backend.Unknown(context.Cause(ctx))
}

// TestFrontDrainUnknown checks that a wait which Drain ends does not pass for one that has found nothing, if the back
// end does not know that. The message may be gone.
func TestFrontDrainUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, f := front(t, losing{memory(t)})
		r := remote(t, l)
		got := make(chan error, 1)
		go func() {
			_, err := r.DeleteMessages(t.Context(), backend.Queue{Account: "a", Name: "q"}, backend.Match{Wait: time.Minute})
			got <- err
		}()
		synctest.Wait()
		f.Drain()
		if err := <-got; !errors.Is(err, backend.ErrUnknownOutcome) {
			t.Errorf("a wait whose answer was lost ends with %v", err)
		}
	})
}
