package overhttp

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/client/backend"
)

// refusing is a back end whose server has answered with some status.
type refusing struct {
	backend.Backend
	err error
}

func (r refusing) DeleteMessages(context.Context, backend.Queue, backend.Match) ([]backend.Message, error) {
	return nil, r.err
}

// TestFrontUpstream checks what the clients of a proxy hear if its server's address now belongs to another server.
// They must not take the answers of that server for those of a queue, and above all not for an empty queue.
func TestFrontUpstream(t *testing.T) {
	for _, tt := range []struct {
		answer string // of the upstream
		want   int
	}{
		{answerOf(404, "", "404 page not found\n"), 503},
		{answerOf(302, "Location: /login\r\n", ""), 503},
		{answerOf(304, "", ""), 503},
		{answerOf(404, "", "Queue not found"), 404},
		{answerOf(429, "", "over quota"), 429},
		{answerOf(503, "Retry-After: 1\r\n", "later"), 503},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, end := answers(t, tt.answer)
			defer end()
			_, err := r.DeleteMessages(t.Context(), backend.Queue{Account: "a", Name: "q"}, backend.Match{})
			w := httptest.NewRecorder()
			Handler(refusing{err: err}).ServeHTTP(w, httptest.NewRequest("DELETE", "/v1.0/a/q", nil))
			if w.Code != tt.want {
				t.Errorf("%.30q: the proxy answers %d %s, want %d", tt.answer, w.Code, strings.TrimSpace(w.Body.String()), tt.want)
			}
		})
	}
}
