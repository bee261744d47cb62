package clientcmd

import (
	"fmt"
	"testing"

	"github.com/kestrelmq/kestrel/client"
)

// TestExplainQuota tests that a login over the quota of its user is no matter of the password.
func TestExplainQuota(t *testing.T) {
	err := fmt.Errorf("%w: user \"ann\": over quota: 1 connections at once", client.ErrAuthentication)
	want := err.Error() + "; quota of [users.ann] in the server's configuration is the bound"
	if got := (&place{user: "ann"}).explain(err); got.Error() != want {
		t.Errorf("explain = %v, want %s", got, want)
	}
}
