package burrowcmd

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/codec/burrow"
)

// TestStatusRefusal asks a server that answers: its status does not allow the request. The advice is about the status, and
// not about a port that may be missing.
func TestStatusRefusal(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, burrow.TextStatus, http.StatusServiceUnavailable)
	}))
	defer server.Close()
	code, _, errs := run(t, "", "burrow", "get_messages", "q", "--server", server.URL)
	if code != cli.ExitFailed || strings.Contains(errs, "burrow_port") || !strings.Contains(errs, "'kestrel cluster status' shows it") {
		t.Errorf("get_messages exits with %d and says %q", code, errs)
	}
}

// TestTooManyArguments names the first argument that is too much.
func TestTooManyArguments(t *testing.T) {
	code, _, errs := run(t, "", "burrow", "get_messages", "a", "b")
	if code != cli.ExitUsage || !strings.Contains(errs, `needs QUEUE and no more, have "b"`) {
		t.Errorf("get_messages a b exits with %d and says %q", code, errs)
	}
}
