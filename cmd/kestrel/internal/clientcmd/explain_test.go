package clientcmd

import (
	"errors"
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
