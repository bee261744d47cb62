package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/kestrelmq/kestrel/netloop"
)

func TestRefusal(t *testing.T) {
	for _, tt := range []struct {
		name, peer, host string
		header           []string
		want             error
	}{
		{"curl", "127.0.0.1:5", "kestrel01:2223", nil, nil},
		{"IPv6", "[::1]:5", "[::1]:2223", nil, nil},
		{"IPv4 in IPv6", "[::ffff:127.0.0.1]:5", "x", nil, nil},
		{"another machine", "10.0.0.7:5", "127.0.0.1:2223", nil, errNotLocal},
		{"no address", "@", "127.0.0.1:2223", nil, errNotLocal},
		{"a proxy for somebody", "127.0.0.1:5", "x", []string{"X-Forwarded-For", "10.0.0.7"}, errNotLocal},
		{"RFC 7239", "127.0.0.1:5", "x", []string{"Forwarded", "for=10.0.0.7"}, errNotLocal},
		{"Via", "127.0.0.1:5", "x", []string{"Via", "1.1 proxy"}, errNotLocal},
		{"an image in a web page", "127.0.0.1:5", "127.0.0.1:2223",
			[]string{"Sec-Fetch-Site", "cross-site"}, errBrowser},
		{"a page of another port", "127.0.0.1:5", "127.0.0.1:2223",
			[]string{"Sec-Fetch-Site", "same-site"}, errBrowser},
		{"typed by the user", "127.0.0.1:5", "localhost:2223", []string{"Sec-Fetch-Site", "none"}, nil},
		{"our own page", "127.0.0.1:5", "127.0.0.1:2223",
			[]string{"Sec-Fetch-Site", "same-origin", "Origin", "http://127.0.0.1:2223"}, nil},
		{"a name that was made to mean this machine", "127.0.0.1:5", "evil.example:2223",
			[]string{"Sec-Fetch-Site", "same-origin"}, errBrowser},
		{"an old browser", "127.0.0.1:5", "127.0.0.1:2223",
			[]string{"Origin", "http://evil.example"}, errBrowser},
		{"an old browser, our page", "127.0.0.1:5", "127.0.0.1:2223",
			[]string{"Origin", "http://127.0.0.1:2223"}, nil},
		{"an old browser, a name", "127.0.0.1:5", "evil.example",
			[]string{"Origin", "http://evil.example"}, errBrowser},
	} {
		r := httptest.NewRequest(http.MethodGet, "/shutdown", nil)
		r.RemoteAddr, r.Host = tt.peer, tt.host
		for i := 0; i < len(tt.header); i += 2 {
			r.Header.Set(tt.header[i], tt.header[i+1])
		}
		if got := refusal(r); !errors.Is(got, tt.want) {
			t.Errorf("%s: refusal = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestControlIsRefused tests that each command that changes something asks who wants it, and none
// that only tells does.
func TestControlIsRefused(t *testing.T) {
	never := func() { t.Error("a refused command was run") }
	tt := start(t, Options{
		Reload: func() error { never(); return nil }, RequestShutdown: never, Profiling: true,
	}, netloop.Options{}, defaults())
	for _, path := range []string{
		"/shutdown", "/quiesce.txt", "/reload", "/config/reload", "/threads", "/gc", "/logging?level=debug",
		"/debug/pprof/", "/debug/pprof/goroutine", "/pprof/heap", "/debug/pprof/profile?seconds=1",
	} {
		if got := tt.do("GET", path, "X-Forwarded-For", "10.0.0.7"); got.code != http.StatusForbidden {
			t.Errorf("GET %s for somebody else = %d %q", path, got.code, got.body)
		}
	}
	if got := tt.do("POST", "/status?to=ReadOnly", "Sec-Fetch-Site", "cross-site"); got.code != 403 {
		t.Errorf("POST /status from a web page = %d %q", got.code, got.body)
	}
	if got := tt.server.Status(); got != netloop.Up {
		t.Errorf("status = %v", got)
	}
	for _, path := range []string{"/ping", "/stats", "/server_info", "/status", "/healthz", "/readyz", "/"} {
		if got := tt.do("GET", path, "X-Forwarded-For", "10.0.0.7"); got.code != http.StatusOK {
			t.Errorf("GET %s for somebody else = %d %q", path, got.code, got.body)
		}
	}
}
