package overhttp

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/client/backend/backendtest"
	"github.com/kestrelmq/kestrel/client/backend/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// front serves b over pipes until the test ends.
func front(t *testing.T, b backend.Backend) (l *backendtest.Pipes, f *Front) {
	l, f = backendtest.NewPipes(), Handler(b)
	server := &http.Server{Handler: f}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return l, f
}

// remote returns a back end over pipes, which the test closes at its end.
func remote(t *testing.T, l *backendtest.Pipes) *Remote {
	t.Helper()
	r, err := Open("http://pipe", Options{Dial: l.Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// memory returns an empty store, which the test closes at its end.
func memory(t *testing.T) *embedded.Store {
	t.Helper()
	s, err := embedded.Memory(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
