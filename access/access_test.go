package access

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// quick returns a hash that takes next to no time.
func quick(password string) Hash { return hashWith([]byte(password), 8, 1, []byte("saltsalt")) }

func user(t *testing.T, name, password string, allow ...string) *User {
	t.Helper()
	u := &User{Name: name, Password: quick(password)}
	for _, text := range allow {
		g, err := ParseGrant(text)
		if err != nil {
			t.Fatal(err)
		}
		u.Allow = append(u.Allow, g)
	}
	return u
}

func users(t *testing.T, list ...*User) *Users {
	t.Helper()
	us, err := NewUsers(list)
	if err != nil {
		t.Fatal(err)
	}
	return us
}

func TestParseGrant(t *testing.T) {
	for in, want := range map[string]string{
		"put work": "put work", "get work*": "get work*", "peek *": "peek *", "manage a+b": "manage a+b",
		"operate": "operate *", "operate *": "operate *", "stats café*": "stats café*", "get acme/work*": "get acme/work*",
		"put a%2Eb/*": "put a%2Eb/*", "peek */errors": "peek */errors",
	} {
		if g, err := ParseGrant(in); err != nil || g.String() != want {
			t.Errorf("ParseGrant(%q) = %v, %v; want %s", in, g, err, want)
		}
	}
	for in, want := range map[string]string{
		"": "the verb must be one of", "PUT work": "the verb must be one of", "put": "write a pattern", "put ": "write a pattern",
		"put work.*": "no name of a queue has a dot", "operate work": "write it alone", "put a/": "a slash stands between", "put /b": "a slash stands between",
		"put a/b/c": "a slash stands between", "put default/b": "write b", "put a/b.c": "%2E",
		"put " + strings.Repeat("x", 256): "at most 255 bytes",
	} {
		if g, err := ParseGrant(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseGrant(%q) = %v, %v; want %q", in, g, err, want)
		}
	}
}

// slowMatches is matches as its definition reads, but for the pattern *.
func slowMatches(pattern, name string) bool {
	if pattern == "" {
		return name == ""
	}
	if pattern[0] == '*' {
		return slowMatches(pattern[1:], name) || name != "" && name[0] != '/' && slowMatches(pattern, name[1:])
	}
	return name != "" && pattern[0] == name[0] && slowMatches(pattern[1:], name[1:])
}

func TestMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[ab*/]{0,8}`).Draw(t, "pattern")
		name := rapid.StringMatching(`[ab/]{0,10}`).Draw(t, "name")
		if got, want := matches(pattern, name), pattern == "*" || slowMatches(pattern, name); got != want {
			t.Fatalf("matches(%q, %q) = %v", pattern, name, got)
		}
	})
	worst := strings.Repeat("*a", 127) + "*b"
	if matches(worst, strings.Repeat("a", 255)) {
		t.Error("a name of letters a matches a pattern that ends in b")
	}
}

func TestRights(t *testing.T) {
	u := user(t, "alice", "x", "put work*", "get work", "stats *", "operate")
	users(t, u)
	for _, tt := range []struct {
		right Right
		queue string
		want  bool
	}{
		{Put, "work", true}, {Put, "work+audit", true}, {Put, "WORK", false}, {Put, "wor", false},
		{Get, "work", true}, {Get, "work2", false}, {Get, "", false}, {Peek, "work", false},
		{Stats, "billing", true}, {Operate, "", true}, {Put | Get, "work", true}, {Put | Get, "work2", false},
	} {
		if got := u.May(tt.right, []byte(tt.queue)); got != tt.want {
			t.Errorf("may %v on %q: %v", tt.right, tt.queue, got)
		}
	}
	if !u.Everywhere(Stats) || u.Everywhere(Put) || !u.Somewhere(Put) || u.Somewhere(Manage) || !u.Sees("billing") {
		t.Error("rights everywhere or somewhere are wrong")
	}
	if v := user(t, "bob", "x", "stats b*"); v.Sees("work") || !v.Sees("billing") {
		t.Error("bob sees work, or does not see billing")
	}
	var nobody *User
	if !nobody.May(Manage, []byte("x")) || !nobody.Everywhere(allRights) || !nobody.Sees("x") {
		t.Error("without a user, something is not allowed")
	}
	for d, want := range map[Denied]string{
		{Get, "billing"}: "not allowed: get on billing", {Operate, ""}: "not allowed: operate",
		{Manage, ""}: "not allowed: manage on all queues",
	} {
		if d.Error() != want {
			t.Errorf("%q, want %q", d.Error(), want)
		}
	}
}

func TestAccountRights(t *testing.T) {
	bound := user(t, "bound", "x", "put *", "get work*", "stats a", "manage *", "operate")
	bound.Account = "acme"
	plain := user(t, "plain", "x", "put *", "get work*", "stats acme/a*", "manage acme/*", "peek */b")
	home := user(t, "home", "x", "put *", "get work")
	home.Account = "default"
	users(t, bound, plain, home)
	for _, tt := range []struct {
		user  *User
		right Right
		queue string
		want  bool
	}{
		{bound, Put, "acme/x", true}, {bound, Put, "x", false}, {bound, Put, "acme", false}, {bound, Put, "acm/x", false},
		{bound, Put, "acmee/x", false}, {bound, Put, "other/acme", false}, {bound, Get, "acme/work", true},
		{bound, Get, "acme/x", false}, {bound, Get, "work", false}, {bound, Operate, "", true},
		{plain, Put, "acme/x", true}, {plain, Put, "x", true}, {plain, Get, "workers/x", false}, {plain, Get, "work", true},
		{plain, Peek, "a/b", true}, {plain, Peek, "b", false}, {plain, Peek, "a/bb", false},
		{home, Put, "x", true}, {home, Put, "default/x", true}, {home, Put, "acme/x", false}, {home, Get, "acme/work", false},
	} {
		if got := tt.user.May(tt.right, []byte(tt.queue)); got != tt.want {
			t.Errorf("%s may %v on %q: %v", tt.user.Name, tt.right, tt.queue, got)
		}
	}
	if bound.Everywhere(Put) || !bound.Everywhere(Operate) || !bound.Somewhere(Put) || !plain.Everywhere(Put) {
		t.Error("rights everywhere or somewhere are wrong")
	}
	for _, tt := range []struct {
		user    *User
		right   Right
		account string
		want    bool
	}{
		{bound, Manage, "acme", true}, {bound, Manage, "other", false}, {bound, Get, "acme", false}, {plain, Manage, "acme", true},
		{plain, Put, "any", true}, {plain, Stats, "acme", false}, {home, Put, "default", true}, {home, Put, "acme", false},
	} {
		if got := tt.user.InAccount(tt.right, tt.account); got != tt.want {
			t.Errorf("%s may %v in %q: %v", tt.user.Name, tt.right, tt.account, got)
		}
	}
	if !bound.Sees("acme/a") || bound.Sees("a") || bound.Sees("b/a") || !plain.Sees("acme/ab") || plain.Sees("acme") {
		t.Error("a user sees too much or too little")
	}
	stray := user(t, "stray", "x", "put acme/x")
	stray.Account = "a.b"
	if _, err := NewUsers([]*User{stray}); err == nil || !strings.Contains(err.Error(), "without it") ||
		!strings.Contains(err.Error(), "%2E") {
		t.Errorf("a stray slash and account: %v", err)
	}
}

func TestUsersProblems(t *testing.T) {
	token := HashToken("t")
	_, err := NewUsers([]*User{
		{Name: "a b"}, {Name: "x", Tokens: []TokenHash{token}, Certificates: []string{"CN=x"}},
		{Name: "x", Tokens: []TokenHash{token}, Certificates: []string{"CN=x"}},
		{Name: "y", Certificates: []string{"alice", "dns:"}},
	})
	for _, want := range []string{"write CN=alice", `the name "dns:"`, "without spaces", "two users have this name", `user "x" has the same token`, `certificate "CN=x" belongs to user "x"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	us := users(t, &User{Name: "a", Certificates: []string{"CN=a"}}, &User{Name: "b", Certificates: []string{"dns:b"}})
	if u := us.WithCertificate([]string{"CN=a", "dns:a"}); u != us.Named("a") {
		t.Errorf("certificate of a: %v", u)
	}
	if u := us.WithCertificate([]string{"CN=a", "dns:b"}); u != nil {
		t.Errorf("a certificate of two users is that of %s", u.Name)
	}
	if u := us.WithCertificate([]string{"cn=a", "dns:B", ""}); u != nil {
		t.Errorf("a certificate that differs in case is that of %s", u.Name)
	}
}

func TestHash(t *testing.T) {
	// A vector of the reference implementation: argon2 -id -v 13 -t 2 -m 16 -p 1, password "password", salt "somesalt".
	const vector = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	h, err := ParseHash(vector)
	if err != nil || !h.matches([]byte("password")) || h.matches([]byte("Password")) || h.String() != vector {
		t.Errorf("%v, %v", h, err)
	}
	made, err := HashPassword([]byte("s3cret"))
	if again, err2 := ParseHash(made.String()); err != nil || err2 != nil || again != made || !made.matches([]byte("s3cret")) {
		t.Errorf("%v, %v, %v", made, err, err2)
	}
	for _, bad := range []string{
		"", "secret", "$argon2i$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
		strings.Replace(vector, "v=19", "v=16", 1), strings.Replace(vector, "m=65536", "m=4294967295", 1),
		strings.Replace(vector, "m=65536", "m=7", 1), strings.Replace(vector, "t=2", "t=0", 1),
		strings.Replace(vector, "p=1", "p=0", 1), strings.Replace(vector, "m=65536", "m=065536", 1),
		strings.Replace(vector, "c29tZXNhbHQ", "c29", 1), vector + "$", vector[:len(vector)-1] + "!",
	} {
		if h, err := ParseHash(bad); err == nil {
			t.Errorf("ParseHash(%q) = %v", bad, h)
		}
	}
	for _, bad := range []string{"", "a b", "a\n", strings.Repeat("x", MaxPassword+1)} {
		if _, err := HashPassword([]byte(bad)); err == nil {
			t.Errorf("HashPassword(%.20q) takes it", bad)
		}
	}
}

func FuzzParseHash(f *testing.F) {
	f.Add(quick("x").String())
	f.Add("$argon2id$v=19$m=8,t=1,p=1$$")
	f.Fuzz(func(t *testing.T, text string) {
		if h, err := ParseHash(text); err == nil && (h.String() != text || h.Memory() > maxMemory<<10) {
			t.Errorf("ParseHash(%q) = %v, which takes %d bytes", text, h, h.Memory())
		}
	})
}

func TestTokens(t *testing.T) {
	token := NewToken()
	h, err := ParseTokenHash(HashToken(token).String())
	if err != nil {
		t.Fatal(err)
	}
	us := users(t, &User{Name: "a", Tokens: []TokenHash{h}})
	if us.WithToken(token) != us.Named("a") || us.WithToken(token+"x") != nil || us.WithToken("") != nil {
		t.Error("a token is not that of its user, or another is")
	}
	for _, bad := range []string{"", "sha256:", "sha256:zz", h.String() + "00", h.String()[:20], h.String()[7:]} {
		if _, err := ParseTokenHash(bad); err == nil {
			t.Errorf("ParseTokenHash(%q) takes it", bad)
		}
	}
}

func TestPassword(t *testing.T) {
	us := users(t, user(t, "alice", "right"), &User{Name: "cert"})
	var held, most int64
	c := NewChecker(us, Options{Account: func(n int64) { held += n; most = max(most, held) }})
	ask := func(name, password string) error {
		u, err := c.Password(context.Background(), name+password, name, []byte(password))
		if err == nil && u != us.Named(name) {
			t.Errorf("%s is %v", name, u)
		}
		return err
	}
	for _, wrong := range []struct{ name, password string }{
		{"alice", "wrong"}, {"alice", ""}, {"alice", "Right"}, {"Alice", "right"}, {"bob", "right"}, {"cert", ""}, {"", ""},
		{"alice", strings.Repeat("x", MaxPassword+1)},
	} {
		if err := ask(wrong.name, wrong.password); err != ErrFailed {
			t.Errorf("%q with %.20q: %v, want ErrFailed", wrong.name, wrong.password, err)
		}
	}
	for range 2 { // checked, and known to be right
		if err := ask("alice", "right"); err != nil {
			t.Errorf("the right password: %v", err)
		}
	}
	if got := c.Counts(); got != (Counts{Passed: 2, Failed: 8}) {
		t.Errorf("counts %+v", got)
	}
	if held != 0 || most != 8<<10 {
		t.Errorf("held %d and at most %d bytes, want 0 and 8 KiB", held, most)
	}
	c.SetUsers(users(t, user(t, "alice", "new")))
	if err := ask("alice", "right"); err != ErrFailed {
		t.Errorf("the password of before: %v, want ErrFailed", err)
	}
	c.SetUsers(nil)
	if err := ask("alice", "new"); err != ErrFailed {
		t.Errorf("without users: %v, want ErrFailed", err)
	}
}

// TestSameWork tests that the comparisons cost the same for every name. The name is that of a user whose hash costs
// more or less, that of a user without a password, or nobody's. So time does not say which users there are.
func TestSameWork(t *testing.T) {
	hash := func(memory, passes uint32) Hash { return hashWith([]byte("right"), memory, passes, []byte("saltsalt")) }
	us := users(t, user(t, "quick", "right"), &User{Name: "again", Password: hash(8, 1)}, &User{Name: "costly", Password: hash(16, 2)},
		&User{Name: "cert"})
	for _, name := range []string{"quick", "again", "costly", "cert", "nobody", ""} {
		hashes, own := us.against(us.Named(name))
		var costs []string
		for _, h := range hashes {
			costs = append(costs, fmt.Sprint(h.memory, h.passes, h.lanes, len(h.sum)))
		}
		if got := strings.Join(costs, ", "); got != "8 1 1 32, 16 2 1 32" {
			t.Errorf("%q: comparisons of %s", name, got)
		}
		if u := us.Named(name); own >= 0 != (u != nil && !u.Password.IsZero()) || own >= 0 && hashes[own] != u.Password {
			t.Errorf("%q: its own hash is number %d", name, own)
		}
	}
	if hashes, own := (*Users)(nil).against(nil); len(hashes) != 1 || own != -1 || !hashes[0].costsAs(defaultCost()) {
		t.Errorf("without users: %+v, %d", hashes, own)
	}
	c := NewChecker(us, Options{})
	for name, password := range map[string]string{"quick": "right", "costly": "right", "nobody": "right", "cert": "right", "again": "wrong"} {
		_, err := c.Password(t.Context(), name, name, []byte(password))
		if ok := err == nil; ok != (name == "quick" || name == "costly") {
			t.Errorf("%s with %s: %v", name, password, err)
		}
	}
}

// TestFailuresSlowDown tests, on a clock of its own, how long attempts wait.
func TestFailuresSlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewChecker(users(t, user(t, "alice", "right"), user(t, "bob", "bobs")), Options{})
		took := func(from, name, password string, want error) time.Duration {
			t.Helper()
			start := time.Now()
			if _, err := c.Password(t.Context(), from, name, []byte(password)); err != want {
				t.Errorf("%s as %s: %v, want %v", from, name, err, want)
			}
			return time.Since(start)
		}
		for i, want := range []time.Duration{0, 0, 0, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
			if got := took("evil", "alice", "guess", ErrFailed); got != want {
				t.Errorf("attempt %d took %v, want %v", i+1, got, want)
			}
		}
		for range 10 {
			if got := took("evil", "alice", "guess", ErrFailed); got > maxDelay {
				t.Errorf("an attempt took %v", got)
			}
		}
		// The user herself comes from elsewhere: she waits a second at most, once.
		if got := took("home", "alice", "right", nil); got != maxUserDelay {
			t.Errorf("the user waited %v, want %v", got, maxUserDelay)
		}
		for range 10 {
			took("evil", "alice", "guess", ErrFailed)
		}
		if got := took("home", "alice", "right", nil); got != 0 {
			t.Errorf("whose password was right before waited %v", got)
		}
		if got := took("home", "bob", "bobs", nil); got != 0 {
			t.Errorf("another user waited %v", got)
		}
		time.Sleep(forgetTime + time.Second)
		if got := took("evil", "alice", "guess", ErrFailed); got != 0 {
			t.Errorf("after a while an attempt took %v", got)
		}
	})
}

// TestManyAtOnce tests that attempts of one address at once come one behind the other, and that those that would
// wait too long are refused.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewChecker(users(t, user(t, "alice", "right")), Options{Parallel: 2})
		for range 8 {
			c.Password(t.Context(), "evil", "alice", []byte("guess"))
		}
		start := time.Now()
		outcomes := make(chan error, 100)
		for range 100 {
			go func() {
				_, err := c.Password(t.Context(), "evil", "alice", []byte("guess"))
				outcomes <- err
			}()
		}
		failed := 0
		for range 100 {
			switch err := <-outcomes; err {
			case ErrFailed:
				failed++
			case ErrBusy:
			default:
				t.Errorf("attempt: %v", err)
			}
		}
		if failed == 0 || failed > 3 || time.Since(start) > 2*maxDelay {
			t.Errorf("%d of 100 guesses were checked in %v", failed, time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Password(ctx, "x", "alice", []byte("right")); !errors.Is(err, context.Canceled) {
			t.Errorf("an attempt that is given up: %v", err)
		}
	})
}

// TestChecksAtOnce tests that checks take no more processors than they may, also those with hashes of several lanes.
func TestChecksAtOnce(t *testing.T) {
	for _, tt := range []struct{ parallel, lanes, want int }{{4, 1, 4}, {4, 2, 2}, {4, 3, 1}, {4, 16, 1}, {1, 1, 1}, {1, 4, 1}, {5, 2, 2}} {
		synctest.Test(t, func(t *testing.T) {
			h := Hash{memory: uint32(8 * tt.lanes), passes: 1, lanes: uint8(tt.lanes), salt: "saltsalt"}
			h.sum = string(h.derive([]byte("right"), sumSize))
			u := user(t, "alice", "")
			u.Password = h
			var running atomic.Int32
			release := make(chan struct{})
			c := NewChecker(users(t, u), Options{Parallel: tt.parallel, Account: func(bytes int64) {
				if bytes > 0 {
					running.Add(1)
					<-release
				}
			}})
			outcomes := make(chan error, 8)
			for range cap(outcomes) {
				go func() {
					_, err := c.Password(t.Context(), "here", "alice", []byte("right"))
					outcomes <- err
				}()
			}
			synctest.Wait()
			if got := int(running.Load()); got != tt.want {
				t.Errorf("%d processors: %d checks of %d lanes at once, want %d", tt.parallel, got, tt.lanes, tt.want)
			}
			close(release)
			for range cap(outcomes) {
				if err := <-outcomes; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestLogName tests that the log calls nobody by a name that may be a password.
func TestLogName(t *testing.T) {
	c := NewChecker(users(t, user(t, "alice", "right")), Options{})
	for name, want := range map[string]string{"alice": "alice", "Alice": "(no such user)", "s3cret": "(no such user)", "": "(no such user)"} {
		if got := c.LogName(name); got != want {
			t.Errorf("LogName(%q) = %q, want %q", name, got, want)
		}
	}
}

// TestRecordsAreBounded tests that attempts from many addresses as many users take no more than so many records.
func TestRecordsAreBounded(t *testing.T) {
	c := NewChecker(nil, Options{})
	for i := range 3 * maxRecords {
		key := strings.Repeat("x", i%7) + time.Duration(i).String()
		c.failed(key, key)
	}
	if len(c.addresses) > maxRecords || len(c.names) > maxRecords {
		t.Errorf("%d addresses and %d names, want %d at most", len(c.addresses), len(c.names), maxRecords)
	}
}

// TestRecordsOfLongNames tests that a name that is too long for any user takes no memory of its own, and is slowed down
// like others.
func TestRecordsOfLongNames(t *testing.T) {
	c := NewChecker(nil, Options{})
	long := strings.Repeat("x", 60_000)
	for i := range maxRecords {
		c.failed("address", long+time.Duration(i).String())
	}
	bytes := 0
	for name := range c.names {
		bytes += len(name)
	}
	if bytes > maxRecords*(maxName+1) {
		t.Errorf("the names of failures have %d bytes, want %d at most", bytes, maxRecords*(maxName+1))
	}
	if wait, ok := c.delay("elsewhere", long+"y"); !ok || wait != maxUserDelay {
		t.Errorf("another such name waits %v, %t, want %v", wait, ok, maxUserDelay)
	}
}

// FuzzParseGrant tests that what is parsed is written the same way again.
func FuzzParseGrant(f *testing.F) {
	f.Add("put work*")
	f.Add("operate")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := ParseGrant(text)
		if err != nil {
			return
		}
		if again, err := ParseGrant(g.String()); err != nil || again != g {
			t.Errorf("%q: %v, then %v, %v", text, g, again, err)
		}
	})
}
