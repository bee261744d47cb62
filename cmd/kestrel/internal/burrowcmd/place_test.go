package burrowcmd

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAdvice asks servers that encrypt, that do not, and that want a user. Each error says what to do.
func TestAdvice(t *testing.T) {
	denied := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Say who you are.", http.StatusUnauthorized)
	})
	plain, encrypted := httptest.NewServer(denied), httptest.NewTLSServer(denied)
	defer plain.Close()
	defer encrypted.Close()
	for _, tt := range []struct{ server, want string }{
		{plain.URL, "Say who you are; say --user NAME"},
		{strings.Replace(plain.URL, "http:", "https:", 1), "write http:// in --server"},
		{encrypted.URL, "--tls-ca names the authority"},
	} {
		if code, _, said := run(t, "", "burrow", "get_queues", "--server", tt.server); code != 1 || !strings.Contains(said, tt.want) {
			t.Errorf("get_queues of %s ends with %d and says %q, want 1 and %q", tt.server, code, said, tt.want)
		}
	}
}
