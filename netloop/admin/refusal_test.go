package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/netloop"
)

// route is one thing that can be asked for.
type route struct {
	path    string
	local   bool     // for this machine only, whatever the method
	changes bool     // with POST; with another method too, if methods is nil
	methods []string // that it takes if it changes nothing; nil: all
}

var routes = []route{
	{path: "/"}, {path: "/ping"}, {path: "/server_info.txt"}, {path: "/x/stats.json"},
	{path: "/histograms", methods: readOnly()}, {path: "/metrics", methods: readOnly()},
	{path: "/healthz", methods: readOnly()}, {path: "/readyz", methods: readOnly()},
	{path: "/status?to=Up", changes: true, methods: readOnly()},
	{path: "/threads", local: true}, {path: "/logging", local: true},
	{path: "/shutdown", local: true, changes: true}, {path: "/quiesce.txt", local: true, changes: true},
	{path: "/reload", local: true, changes: true}, {path: "/config/reload.txt", local: true, changes: true},
	{path: "/gc", local: true, changes: true}, {path: "/logging?level=info", local: true, changes: true},
	{path: "/debug/pprof/cmdline", local: true}, {path: "/debug/pprof/symbol", local: true},
}

// code is what r is answered with if it asks by a method, and may change something or not.
func (r route) code(method string, may, getControls bool) int {
	post := method == http.MethodPost
	changing := r.changes && (post || r.methods == nil)
	switch {
	case !changing && r.methods != nil && !slices.Contains(r.methods, method):
		return http.StatusMethodNotAllowed
	case (r.local || changing) && !may:
		return http.StatusForbidden
	case changing && !post && !(getControls && method == http.MethodGet):
		return http.StatusMethodNotAllowed
	}
	return http.StatusOK
}

// trusted is a header's value, and whether who sends it may change something.
type trusted struct {
	value string
	is    bool
}

// TestWhoMayChange asks for every route, by every method, with every Host, Origin and Sec-Fetch-Site, from
// this machine and from another.
func TestWhoMayChange(t *testing.T) {
	for _, getControls := range []bool{false, true} {
		tt := startUnready(t, Options{Profiling: true, Hosts: []string{"Kestrel.example"}, GetControls: getControls})
		for name, c := range tt.admin.commands {
			c.run = func(*Server, *http.Request) (any, error) { return done, nil }
			tt.admin.commands[name] = c
		}
		for _, route := range routes {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE"} {
				tt.askEveryWay(route, method, getControls)
			}
		}
	}
}

// askEveryWay asks for a route by a method with all combinations of headers that say who asks.
func (tt *tester) askEveryWay(route route, method string, getControls bool) {
	tt.t.Helper()
	peers := []trusted{
		{"127.0.0.1:5", true}, {"[::1]:5", true}, {"10.0.0.7:5", false}, {"[::ffff:127.0.0.1]:5", true},
	}
	n := 0
	for _, host := range []trusted{
		{"127.0.0.1:2223", true}, {"127.0.0.1", true}, {"localhost:8080", true}, {"LocalHost.", true},
		{"[::1]:2223", true}, {"[::ffff:127.0.0.1]:1", true}, {"kestrel.example:443", true},
		{"evil.example:2223", false}, {"localhost.evil.example", false}, {"10.0.0.7:2223", false},
		{"0.0.0.0:2223", false}, {"", false},
	} {
		for _, origin := range []trusted{
			{"", true}, {"http://" + host.value, true}, {"https://" + host.value, true},
			{"http://evil.example", false}, {"null", false}, {"file://", false},
		} {
			for _, site := range []trusted{
				{"", true}, {"none", true}, {"same-origin", true}, {"same-site", false}, {"cross-site", false},
			} {
				peer := peers[n%len(peers)] // 4 and 5: each meets each
				n++
				r := httptest.NewRequest(method, route.path, nil)
				r.RemoteAddr, r.Host = peer.value, host.value
				for name, value := range map[string]string{"Origin": origin.value, "Sec-Fetch-Site": site.value} {
					if value != "" {
						r.Header.Set(name, value)
					}
				}
				w := httptest.NewRecorder()
				tt.admin.ServeHTTP(w, r)
				may := peer.is && host.is && origin.is && site.is
				want := route.code(method, may, getControls)
				if strings.Contains(host.value, "evil") {
					want = http.StatusForbidden // whatever is asked for
				}
				if w.Code != want {
					tt.t.Errorf("%s %s from %s, %v, Host %q, GET controls %t: %d %.200q, want %d", method,
						route.path, peer.value, r.Header, host.value, getControls, w.Code, w.Body, want)
				}
			}
		}
	}
}

// TestRefusal has what the tables of TestWhoMayChange leave out.
func TestRefusal(t *testing.T) {
	s := &Server{names: namesOf(Options{Address: "10.0.0.5:2223", Hosts: []string{"kestrel01", "[2001:db8::1]"}})}
	for _, tt := range []struct {
		name, peer, host string
		header           []string
		want             error
	}{
		{"curl", "127.0.0.1:5", "kestrel01:2223", nil, nil},
		{"the address listened on", "127.0.0.1:5", "10.0.0.5:2223", nil, nil},
		{"an address of IPv6", "127.0.0.1:5", "[2001:DB8::1]:2223", nil, nil},
		{"no address", "@", "127.0.0.1:2223", nil, errNotLocal},
		{"a proxy for somebody", "127.0.0.1:5", "kestrel01", []string{"X-Forwarded-For", "10.0.0.7"}, errNotLocal},
		{"RFC 7239", "127.0.0.1:5", "kestrel01", []string{"Forwarded", "for=10.0.0.7"}, errNotLocal},
		{"Via", "127.0.0.1:5", "kestrel01", []string{"Via", "1.1 proxy"}, errNotLocal},
		{"a name that was made to mean this machine", "127.0.0.1:5", "evil.example:2223", nil,
			hostError("evil.example:2223")},
		{"a form of a very old browser", "127.0.0.1:5", "localhost:2223",
			[]string{"Referer", "http://evil.example/"}, errBrowser},
		{"our page in a very old browser", "127.0.0.1:5", "localhost:2223",
			[]string{"Referer", "http://localhost:2223/"}, nil},
		{"another port of this machine", "127.0.0.1:5", "localhost:2223",
			[]string{"Origin", "http://localhost:8080"}, errBrowser},
	} {
		r := httptest.NewRequest(http.MethodPost, "/shutdown", nil)
		r.RemoteAddr, r.Host = tt.peer, tt.host
		for i := 0; i < len(tt.header); i += 2 {
			r.Header.Set(tt.header[i], tt.header[i+1])
		}
		if got := s.refusal(r); !errors.Is(got, tt.want) {
			t.Errorf("%s: refusal = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A GET that would change something says what to do instead.
func TestGetDoesNotChange(t *testing.T) {
	tt := startUnready(t, Options{Reload: func() error { t.Error("reloaded"); return nil }})
	got := tt.get("/config/reload.txt?x=1")
	want := "method not allowed: a request that changes something must be a POST, as in curl -X POST '" + tt.base +
		"/config/reload.txt?x=1'; admin_get_controls = true in the configuration allows GET\n"
	if got.code != http.StatusMethodNotAllowed || got.header.Get("Allow") != "POST" || got.body != want {
		t.Errorf("GET = %d, Allow %q, %q, want 405, POST, %q", got.code, got.header.Get("Allow"), got.body, want)
	}
}

// TestControlIsRefused tests that each command that changes something checks who sends it, and that no
// command that only reads does.
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
