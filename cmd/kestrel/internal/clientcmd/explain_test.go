package clientcmd

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestExplainQuota tests that a login over the quota of its user is no matter of the password.
func TestExplainQuota(t *testing.T) {
	err := errors.New(`the server answered the login of user "ann" with SERVER_ERROR over quota: 1 connections at once`)
	want := err.Error() + "; quota of [users.ann] in the server's configuration is the bound"
	if got := (&place{user: "ann"}).explain(err); got.Error() != want {
		t.Errorf("explain = %v, want %s", got, want)
	}
}

// TestExplainClosed tests that only a server which has never answered may be one that encrypts.
func TestExplainClosed(t *testing.T) {
	err := fmt.Errorf("the server closed the connection (%w)", io.EOF)
	for _, tt := range []struct {
		p    place
		want bool
	}{{place{}, true}, {place{answered: true}, false}, {place{tls: true}, false}} {
		if got := tt.p.explain(err); strings.Contains(got.Error(), "say --tls") != tt.want {
			t.Errorf("answered %v, tls %v: explain = %v", tt.p.answered, tt.p.tls, got)
		}
	}
}
