package admin

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/netloop"
)

// testHash is the hash of the password "right", of next to no cost.
const testHash = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$P3OLBQw3O3GiY9hpX8wpK8qO6gQccIdDXnlkdzKceqU"

func grants(t *testing.T, name string, allow ...string) *access.User {
	t.Helper()
	h, err := access.ParseHash(testHash)
	if err != nil {
		t.Fatal(err)
	}
	u := &access.User{Name: name, Password: h, Tokens: []access.TokenHash{access.HashToken("token of " + name)}}
	for _, text := range allow {
		g, err := access.ParseGrant(text)
		if err != nil {
			t.Fatal(err)
		}
		u.Allow = append(u.Allow, g)
	}
	return u
}

// rightsRows has, for each command, a request and the rights that it needs.
var rightsRows = map[string]struct {
	method, path string
	allow        []string
}{
	"ping":        {"GET", "/ping", nil},
	"stats":       {"GET", "/stats.json", []string{"stats work"}},
	"server_info": {"GET", "/server_info", nil},
	"shutdown":    {"POST", "/shutdown", []string{"operate"}},
	"quiesce":     {"POST", "/quiesce", []string{"operate"}},
	"reload":      {"POST", "/reload", []string{"operate"}},
	"threads":     {"GET", "/threads", []string{"operate"}},
	"gc":          {"POST", "/gc", []string{"operate"}},
	"logging":     {"GET", "/logging", []string{"operate"}},
	"histograms":  {"GET", "/histograms", []string{"stats work"}},
	"metrics":     {"GET", "/metrics", []string{"stats work"}},
	"backup":      {"POST", "/backup", []string{"operate", "get *", "stats *"}},
	"status":      {"GET", "/status", nil},
	"connections": {"GET", "/connections", []string{"operate", "stats *"}},
	"sniff":       {"GET", "/sniff?seconds=0.001", []string{"operate", "stats *"}},
	"healthz":     {"GET", "/healthz", nil},
	"readyz":      {"GET", "/readyz", nil},
	// Beyond the table of commands.
	"":               {"GET", "/", nil},
	"status change":  {"POST", "/status?to=Up", []string{"operate"}},
	"logging change": {"POST", "/logging?level=info", []string{"operate"}},
	"pprof":          {"GET", "/debug/pprof/cmdline", []string{"operate"}},
}

// startRights starts an admin port that asks who sends requests.
func startRights(t *testing.T) (*tester, *access.Checker) {
	t.Helper()
	checker := access.NewChecker(nil, access.Options{FreeFailures: 1 << 30})
	opts := Options{
		Auth: netloop.AuthPassword, Access: checker, Profiling: true,
		Reload: func() error { return nil }, RequestShutdown: func() {},
	}
	set := defaults()
	set.Aliases = map[string][]string{"secretalias": {"work"}}
	tt := start(t, opts, netloop.Options{}, set)
	tt.put("work", "x")
	tt.put("secret", "x")
	return tt, checker
}

// TestRights asks for every command as nobody, with a wrong password, and as a user with all rights but the one that
// it needs. It also asks with that right, by password and by token.
func TestRights(t *testing.T) {
	for name := range commands() {
		if _, ok := rightsRows[name]; !ok {
			t.Errorf("%s has no row in the table of rights", name)
		}
	}
	tt, checker := startRights(t)
	base := "http://" + tt.admin.Addr().String()
	for name, row := range rightsRows {
		var rest []string
		for _, verb := range []string{"put *", "get *", "peek *", "manage *", "stats *", "operate"} {
			needed := false
			for _, grant := range row.allow {
				needed = needed || strings.Fields(grant)[0] == strings.Fields(verb)[0]
			}
			if !needed {
				rest = append(rest, verb)
			}
		}
		users, err := access.NewUsers([]*access.User{grants(t, "allowed", row.allow...), grants(t, "denied", rest...)})
		if err != nil {
			t.Fatal(err)
		}
		checker.SetUsers(users)
		for _, who := range []struct {
			user, password, token string
			known, may            bool
		}{
			{}, {user: "allowed", password: "wrong"}, {user: "ALLOWED", password: "right"}, {token: "token of nobody"},
			{user: "denied", password: "right", known: true}, {token: "token of denied", known: true},
			{user: "allowed", password: "right", known: true, may: true}, {token: "token of allowed", known: true, may: true},
		} {
			r, err := http.NewRequest(row.method, base+row.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if who.token != "" {
				r.Header.Set("Authorization", "Bearer "+who.token)
			} else if who.user != "" {
				r.SetBasicAuth(who.user, who.password)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			want := resp.StatusCode < 400 || resp.StatusCode == http.StatusServiceUnavailable
			switch {
			case !who.known:
				want = resp.StatusCode == http.StatusUnauthorized && resp.Header.Get("WWW-Authenticate") != ""
			case !who.may && row.allow != nil:
				want = resp.StatusCode == http.StatusForbidden
			}
			if !want {
				t.Errorf("%s as %+v: %s", name, who, resp.Status)
			}
		}
	}
	denied := int64(0)
	for _, row := range rightsRows {
		if row.allow != nil {
			denied += 2 // by password and by token
		}
	}
	if got := tt.server.Counters().Denied; got != denied {
		t.Errorf("%d refusals are counted, want %d", got, denied)
	}
	rows := int64(len(rightsRows)) // each with three attempts that fail and four that pass, by password or token
	if got, want := checker.Counts(), (access.Counts{Passed: 4 * rows, Failed: 3 * rows}); got != want {
		t.Errorf("attempts are counted as %+v, want %+v", got, want)
	}
}

// TestCredentialsTwice: a request with two credentials is nobody's, whichever comes first. The scheme has any case.
func TestCredentialsTwice(t *testing.T) {
	tt, checker := startRights(t)
	users, err := access.NewUsers([]*access.User{grants(t, "root", "operate"), grants(t, "alice")})
	if err != nil {
		t.Fatal(err)
	}
	checker.SetUsers(users)
	root, alice := "Bearer token of root", "Bearer token of alice"
	for _, row := range []struct {
		sent []string
		want int
	}{
		{[]string{root}, http.StatusOK}, {[]string{strings.Replace(root, "Bearer", "bEARER", 1)}, http.StatusOK},
		{[]string{alice, root}, http.StatusUnauthorized}, {[]string{root, alice}, http.StatusUnauthorized},
		{[]string{root, root}, http.StatusUnauthorized}, {[]string{"", root}, http.StatusUnauthorized},
		{[]string{alice + ", " + root}, http.StatusUnauthorized}, {[]string{"Bearer"}, http.StatusUnauthorized},
		{[]string{"Bearer "}, http.StatusUnauthorized}, {[]string{"Basic"}, http.StatusUnauthorized},
		{[]string{"Basic !!!!"}, http.StatusUnauthorized}, {[]string{"Basic cm9vdA=="}, http.StatusUnauthorized},
	} {
		r, err := http.NewRequest("GET", "http://"+tt.admin.Addr().String()+"/logging", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header["Authorization"] = row.sent
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != row.want {
			t.Errorf("%q: %s, want %d", row.sent, resp.Status, row.want)
		}
	}
}

// TestRefusalLines tests that the log has one line a second about missing rights, and one about wrong passwords.
// Neither has a name that belongs to no user.
func TestRefusalLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		users, err := access.NewUsers([]*access.User{grants(t, "alice", "get *")})
		if err != nil {
			t.Fatal(err)
		}
		log := new(bytes.Buffer)
		l := &pipeListener{make(chan net.Conn), make(chan struct{})}
		a, err := New(Options{
			Address: "127.0.0.1:0", Auth: netloop.AuthPassword, Access: access.NewChecker(users, access.Options{FreeFailures: 100}),
			Listen: func(string) (net.Listener, error) { return l, nil }, Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		a.Start()
		ask := func(name, password string, want int) {
			client, server := net.Pipe()
			l.conns <- server
			r, _ := http.NewRequestWithContext(t.Context(), "POST", "http://localhost/reload", nil)
			r.SetBasicAuth(name, password)
			r.Close = true
			go r.Write(client)
			response, err := http.ReadResponse(bufio.NewReader(client), r)
			if err != nil || response.StatusCode != want {
				t.Errorf("%s: %v, %v, want %d", name, response, err, want)
			}
			client.Close()
		}
		for second := 1; second <= 2; second++ {
			for range 5 {
				ask("alice", "right", http.StatusForbidden)
				ask("s3cret", "right", http.StatusUnauthorized)
			}
			synctest.Wait()
			for _, line := range []string{"admin command refused", "authentication failed"} {
				if got := strings.Count(log.String(), line); got != second {
					t.Errorf("in second %d there are %d lines of %q:\n%s", second, got, line, log)
				}
			}
			<-time.After(time.Second)
		}
		if strings.Contains(log.String(), "s3cret") || !strings.Contains(log.String(), "user=alice") {
			t.Errorf("the log: %s", log)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestHiddenNames tests that no answer names a queue that the user may not see, nor says anything of the server as a
// whole.
func TestHiddenNames(t *testing.T) {
	tt, checker := startRights(t)
	users, err := access.NewUsers([]*access.User{grants(t, "root", "stats *"), grants(t, "alice", "stats work")})
	if err != nil {
		t.Fatal(err)
	}
	checker.SetUsers(users)
	get := func(user, path string) string {
		r, err := http.NewRequest("GET", "http://"+tt.admin.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth(user, "right")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body := new(strings.Builder)
		if _, err := io.Copy(body, resp.Body); err != nil {
			t.Fatal(err)
		}
		return body.String()
	}
	for path, global := range map[string]string{
		"/stats.txt": "cmd_set", "/stats.json?period=1": "cmd_set", "/stats.txt?namespace=x": "cmd_set", "/metrics": "kestrel_items ",
	} {
		if all := get("root", path); !strings.Contains(all, "secret") || !strings.Contains(all, global) {
			t.Errorf("%s shows root too little: %s", path, all)
		}
		got := get("alice", path)
		if !strings.Contains(got, "work") || strings.Contains(got, "secret") || strings.Contains(got, global) {
			t.Errorf("%s shows too much or too little: %s", path, got)
		}
	}
	for _, path := range []string{"/histograms.txt?all=1", "/histograms.txt?queue=secret", "/histograms.txt"} {
		if got := get("alice", path); strings.Contains(strings.ReplaceAll(got, `"secret"`, ""), "secret") || strings.Contains(got, "fsync") {
			t.Errorf("%s shows too much: %s", path, got)
		}
	}
}

// TestOtherSites tests that the browser of a user does nothing for a web page of another site.
func TestOtherSites(t *testing.T) {
	tt, checker := startRights(t)
	users, err := access.NewUsers([]*access.User{grants(t, "root", "operate")})
	if err != nil {
		t.Fatal(err)
	}
	checker.SetUsers(users)
	for header, value := range map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site", "Referer": "http://evil.example/"} {
		r, err := http.NewRequest("POST", "http://"+tt.admin.Addr().String()+"/gc", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("root", "right")
		r.Header.Set(header, value)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("with %s: %s: %s", header, value, resp.Status)
		}
	}
}

var (
	age         = regexp.MustCompile(`age_msec: \d+`)
	hiddenBytes = regexp.MustCompile(`\b(15838|23758)\b`) // of two items of 7,919 bytes, and of three with one of a single byte
)

// TestHiddenEverywhere asks for everything that there is, in every form, as a user who may operate the server and see
// one queue. No answer has the name of another one, or how many bytes it has.
func TestHiddenEverywhere(t *testing.T) {
	checker := access.NewChecker(nil, access.Options{})
	users, err := access.NewUsers([]*access.User{grants(t, "root", "stats *"), grants(t, "alice", "stats open", "operate", "manage *", "put *")})
	if err != nil {
		t.Fatal(err)
	}
	checker.SetUsers(users)
	const name, size = "topsecret", 7919
	set := defaults()
	set.Aliases = map[string][]string{name + "alias": {"open"}, "openalias": {name}}
	opts := Options{
		Auth: netloop.AuthPassword, Access: checker, Profiling: true, RequestShutdown: func() {},
		Reload: func() error { return errors.New("k:7: queues." + name + ".max_items: want a number") },
	}
	tt := start(t, opts, netloop.Options{}, set)
	for _, queue := range []string{"open", name, name + "+child", "open/" + name} { // the last is one of account open
		tt.put(queue, strings.Repeat("x", size))
	}
	tt.put("open", "x")
	seenByRoot := 0
	ask := func(user, method, path string) string {
		r, err := http.NewRequest(method, "http://"+tt.admin.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth(user, "right")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	paths := []string{"/", "/stats.txt?period=1", "/stats.json?namespace=a", "/stats.txt?filtered=1", "/histograms.txt?all=1", "/histograms.json?all=1",
		"/histograms.hgrm", "/metrics?queues=.*", "/metrics?queues=top.*", "/connections?order=open", "/debug/pprof/cmdline", "/nonsense"}
	for command := range commands() {
		paths = append(paths, "/"+command, "/"+command+".json", "/"+command+".txt")
	}
	for _, profile := range []string{"", "goroutine?debug=1", "goroutine?debug=2", "heap?debug=1", "allocs?debug=1", "block?debug=1", "mutex?debug=1"} {
		paths = append(paths, "/debug/pprof/"+profile)
	}
	for _, path := range paths {
		for _, method := range []string{"GET", "POST"} {
			got := ask("alice", method, path)
			profile := strings.HasPrefix(path, "/debug/pprof/") // its numbers are those of the process
			if strings.Contains(got, name) && !strings.Contains(path, name) || hiddenBytes.MatchString(got) && !profile {
				t.Errorf("%s %s: %.2000s", method, path, got)
			}
			seenByRoot += strings.Count(ask("root", method, path), name)
		}
	}
	// What is asked for a queue that is hidden is answered like what is asked for one that there is not.
	for _, path := range []string{"/metrics?queues=%s", "/metrics?queues=^%s$", "/histograms.txt?queue=%s", "/histograms.json?queue=%s",
		"/histograms.hgrm?queue=%s", "/stats.txt?namespace=%s", "/connections?queue=%s", "/%s", "/stats/%s"} {
		about := func(queue string) string {
			answer := strings.ReplaceAll(ask("alice", "GET", strings.ReplaceAll(path, "%s", queue)), queue, "NAME")
			return age.ReplaceAllString(answer, "age_msec: N") // of another queue: it grows
		}
		if hidden, none := about(name), about("notsecret"); hidden != none {
			t.Errorf("%s is answered by %.500s, for want of the queue %.500s", path, hidden, none)
		}
	}
	if seenByRoot < 100 {
		t.Errorf("root sees the name %d times only", seenByRoot)
	}
}
