package cli

import (
	"net/http"
	"testing"
)

// TestStatusAdvice tests what a command says of an answer without a text, as other ports than the admin port give.
func TestStatusAdvice(t *testing.T) {
	for _, tt := range []struct {
		status int
		text   string
		want   string
	}{
		{http.StatusNotFound, "", "nothing is there; is it the admin port?"},
		{http.StatusNotFound, "no such command", ""},
		{http.StatusUnauthorized, "", "; " + SayWho},
	} {
		if got := StatusAdvice(tt.status, tt.text); got != tt.want {
			t.Errorf("StatusAdvice(%d, %q) = %q, want %q", tt.status, tt.text, got, tt.want)
		}
	}
}
