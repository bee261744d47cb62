package burrowcmd

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWrongAddress names no messages that there could be. That is a mistake in the command line, which ends with 2.
func TestWrongAddress(t *testing.T) {
	for _, address := range []string{
		"ftp://x", "http://", "http://x:y", "http://x/a/b", "sqlite://", "memory://x", "kestrel://host", "hash://a,a", "failover://",
		"failover://foo://x",
	} {
		code, _, said := run(t, "", "burrow", "get_accounts", "--server", address)
		if code != 2 || !strings.HasPrefix(said, "kestrel: --server: ") {
			t.Errorf("%s ends with %d and says %q", address, code, said)
		}
	}
	if code, _, said := run(t, "", "proxy", "--backend", "ftp://x"); code != 2 || !strings.HasPrefix(said, "kestrel: --backend: ") {
		t.Errorf("a proxy of it ends with %d and says %q", code, said)
	}
	t.Setenv(serverVariable, "ftp://x")
	if code, _, said := run(t, "", "burrow", "get_accounts"); code != 2 || !strings.HasPrefix(said, "kestrel: $KESTREL_BURROW: ") {
		t.Errorf("an address of the environment ends with %d and says %q", code, said)
	}
}

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
