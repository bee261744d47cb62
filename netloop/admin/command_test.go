package admin

import (
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/netloop"
)

// TestVectors are the admin vectors of the original's behaviour, W01 to W07. W08 is a test of the
// command line's package, because it ends a process.
func TestVectors(t *testing.T) {
	reloads := 0
	tt := start(t, Options{Reload: func() error { reloads++; return nil }}, netloop.Options{}, defaults())
	for _, v := range []struct {
		name, method, path string
		code               int
		kind, body         string
	}{
		{"W01", "GET", "/ping.txt", 200, "text/plain", "pong\n"},
		{"W02", "GET", "/ping", 200, "application/json", "{\"response\":\"pong\"}\n"},
		{"W03", "GET", "/ping.json?callback=cb", 200, "application/json", "cb({\"response\":\"pong\"}\n)"},
		{"W04", "GET", "/nosuch", 404, "text/plain", "no such command\n"},
		{"W05", "POST", "/reload.txt", 200, "text/plain", "ok\n"},
	} {
		got := tt.do(v.method, v.path)
		if got.code != v.code || got.kind != v.kind || got.body != v.body {
			t.Errorf("%s %s %s = %d %s %q, want %d %s %q",
				v.name, v.method, v.path, got.code, got.kind, got.body, v.code, v.kind, v.body)
		}
	}
	if reloads != 1 {
		t.Errorf("W05 reloaded %d times", reloads)
	}

	tt.put("w06", "hello")
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(tt.get("/stats.json").body), &members); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys(members))
	if want := []string{"counters", "gauges", "labels", "metrics"}; !slices.Equal(got, want) {
		t.Errorf("W06 members = %v, want %v", got, want)
	}
	st := tt.stats("/stats.json")
	if st.Counters["q/w06/put_items"] != 1 || st.Counters["q/w06/put_bytes"] != 5 ||
		st.Gauges["q/w06/items"] != 1 || st.Gauges["q/w06/bytes"] != 5 ||
		st.Gauges["q/w06/max_items"] != 2147483647 {
		t.Errorf("W06 stats.json = %+v", st)
	}

	text := tt.get("/stats.txt")
	if text.kind != "text/plain" {
		t.Errorf("W07 stats.txt is %s", text.kind)
	}
	at := 0
	for _, line := range []string{
		"counters:\n", "\n  cmd_set: 0\n", "\ngauges:\n", "\n  q/w06/items: 1\n", "\nlabels:\n",
		"\n  version: 3.0.0\n", "\nmetrics:\n",
	} {
		i := strings.Index(text.body[at:], line)
		if i < 0 {
			t.Fatalf("W07 stats.txt lacks %q behind byte %d: %s", line, at, text.body)
		}
		at += i
	}
}

// TestPaths tests how a path names a command and a type, and which methods it takes.
func TestPaths(t *testing.T) {
	tt := start(t, Options{}, netloop.Options{}, defaults())
	for _, v := range []struct {
		method, path string
		code         int
		body         string // "" is not looked at
	}{
		{"GET", "/x/y/ping.txt", 200, "pong\n"},
		{"GET", "/ping.foo.txt", 200, "pong\n"},
		{"GET", "/ping.txt.json", 200, "{\"response\":\"pong\"}\n"},
		{"GET", "/ping.xml", 200, "{\"response\":\"pong\"}\n"},
		{"GET", "/ping/", 404, "no such command\n"},
		{"GET", "/.txt", 404, "no such command\n"},
		{"GET", "/Ping", 404, "no such command\n"},
		{"GET", "/favicon.ico", 404, "no such command\n"},
		{"GET", "/%00", 404, "no such command\n"},
		{"GET", "//ping.txt", 200, "pong\n"},
		{"GET", "/", 200, ""},
		{"POST", "/ping.txt", 200, "pong\n"},
		{"DELETE", "/ping.txt", 200, "pong\n"},
		{"HEAD", "/ping.txt", 200, ""},
		{"HEAD", "/stats.json", 200, ""},
		{"POST", "/readyz", 405, "method not allowed\n"},
		{"DELETE", "/status", 405, "method not allowed\n"},
		{"GET", "/ping?callback=true", 200, "ostrichCallback({\"response\":\"pong\"}\n)"},
		{"GET", "/ping?callback=", 200, "ostrichCallback({\"response\":\"pong\"}\n)"},
		{"GET", "/ping.txt?callback=x", 200, "pong\n"},
		{"GET", "/ping?callback=alert(1)//", 400, "callback is not the name of a function\n"},
		{"GET", "/ping?callback=" + strings.Repeat("x", 65), 400, ""},
		{"GET", "/healthz.json", 200, "{\"response\":\"ok\"}\n"},
		{"POST", "/shutdown", 500, "error processing command: not offered by this process\n"},
		{"POST", "/reload", 500, "error processing command: not offered by this process\n"},
	} {
		if got := tt.do(v.method, v.path); got.code != v.code || v.body != "" && got.body != v.body {
			t.Errorf("%s %s = %d %q, want %d %q", v.method, v.path, got.code, got.body, v.code, v.body)
		}
	}
}

func TestReloadTellsWhatIsWrong(t *testing.T) {
	opts := Options{Reload: func() error { return errors.New("kestrel.toml:3: no") }}
	tt := start(t, opts, netloop.Options{}, defaults())
	tt.expectPost("/config/reload.txt", 500, "error processing command: kestrel.toml:3: no\n")
}

func TestShutdown(t *testing.T) {
	for _, path := range []string{"/shutdown.txt", "/quiesce.txt"} {
		asked := make(chan struct{})
		tt := start(t, Options{RequestShutdown: func() { close(asked) }}, netloop.Options{}, defaults())
		tt.expectPost(path, 200, "ok\n")
		<-asked
	}
}

func TestServerInfo(t *testing.T) {
	tt := startUnready(t, Options{})
	var info map[string]any
	if err := json.Unmarshal([]byte(tt.get("/server_info.json").body), &info); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"name": "kestrel", "version": netloop.Version, "build": "go1", "build_revision": "r1",
		"build_branch_name": "",
	} {
		if info[key] != want {
			t.Errorf("server_info[%s] = %v, want %v", key, info[key], want)
		}
	}
	if _, ok := info["uptime"].(float64); !ok || info["start_time"] == "" || len(info) != 8 {
		t.Errorf("server_info = %v", info)
	}
}

func TestThreads(t *testing.T) {
	tt := startUnready(t, Options{})
	var dump struct{ Threads map[string][]string }
	if err := json.Unmarshal([]byte(tt.get("/threads").body), &dump); err != nil {
		t.Fatal(err)
	}
	found := false
	for head, frames := range dump.Threads {
		if !strings.HasPrefix(head, "goroutine ") {
			t.Errorf("thread %q", head)
		}
		found = found || strings.Contains(strings.Join(frames, "\n"), "admin.threads(")
	}
	if !found {
		t.Errorf("threads lacks the one that answers: %v", slices.Collect(maps.Keys(dump.Threads)))
	}
	tt.expectPost("/gc.txt", 200, "ok\n")
}

func TestLogging(t *testing.T) {
	level := new(slog.LevelVar)
	tt := startUnready(t, Options{LogLevel: level})
	if got := tt.get("/logging.txt"); !strings.Contains(got.body, "Its level is info.") {
		t.Errorf("logging = %q", got.body)
	}
	tt.expectPost("/logging.txt?level=debug", 200, "level of kestrel is debug\n")
	tt.expectPost("/logging.txt?name=^kes&level=WARN", 200, "level of kestrel is warn\n")
	for _, bad := range []string{"level=loud", "name=^x&level=info", "name=(&level=info"} {
		if got := tt.do("POST", "/logging?"+bad); got.code != http.StatusBadRequest {
			t.Errorf("logging?%s = %d %q", bad, got.code, got.body)
		}
	}
	if level.Level() != slog.LevelWarn {
		t.Errorf("level = %v", level.Level())
	}
}

func TestStatus(t *testing.T) {
	tt := start(t, Options{}, netloop.Options{StatusGrace: testDeadline}, defaults())
	var got struct {
		Status, Enforced string
		Published        struct{ Status, Since string }
	}
	ask := func(a answer) string {
		if err := json.Unmarshal([]byte(a.body), &got); err != nil {
			t.Fatalf("status = %q: %v", a.body, err)
		}
		return got.Status + " " + got.Enforced + " " + got.Published.Status
	}
	if s := ask(tt.get("/status")); s != "Up Up Up" {
		t.Errorf("status at the start = %s", s)
	}
	if s := ask(tt.do("POST", "/status?to=quiescent")); s != "Quiescent Up Quiescent" {
		t.Errorf("status with a grace period running = %s", s)
	}
	tt.expect("/readyz", 503, "not ready\nphase: serving\nstatus: Quiescent\n")
	st := tt.stats("/stats.json")
	if st.Gauges["status/readable"] != 0 || st.Gauges["status/writeable"] != 0 ||
		st.Labels["status"] != "Quiescent" {
		t.Errorf("stats = %v %v", st.Gauges, st.Labels)
	}
	if s := ask(tt.do("POST", "/status?to=ReadOnly")); s != "ReadOnly ReadOnly ReadOnly" {
		t.Errorf("status after a change to a looser one = %s", s)
	}
	req, err := http.NewRequest("POST", tt.base+"/status", strings.NewReader("to=Up"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if s := ask(tt.send(req)); s != "Up Up Up" {
		t.Errorf("status after a form = %s", s)
	}
	for _, bad := range []string{"", "?to=", "?to=Down", "?to=Sideways"} {
		if got := tt.do("POST", "/status"+bad); got.code != http.StatusBadRequest {
			t.Errorf("POST /status%s = %d %q", bad, got.code, got.body)
		}
	}
	if s := ask(tt.get("/status?to=ReadOnly")); s != "Up Up Up" {
		t.Errorf("a GET changed the status: %s", s)
	}
}
