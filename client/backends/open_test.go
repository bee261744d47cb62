package backends

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/client/backend/backendtest"
	"github.com/kestrelmq/kestrel/client/backend/overhttp"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a real server, with its Burrow port on loopback, and returns the port's address.
func serve(t *testing.T) string {
	t.Helper()
	options := engine.DefaultQueueOptions()
	options.Sync = engine.SyncNever
	e, err := engine.Open(engine.Options{
		Dir: t.TempDir(), Settings: engine.Settings{Default: options},
		SegmentSize: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := netloop.New(netloop.Options{Engine: e, Burrow: "127.0.0.1:0", Loops: 1, EventLoop: netloop.DefaultEventLoop, ShutdownGrace: 1})
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		e.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Shutdown(context.Background()), e.Close()); err != nil {
			t.Error(err)
		}
	})
	return s.BurrowAddr().String()
}

// open opens a back end that the end of the test closes.
func open(t *testing.T, address string, o Options) backend.Backend {
	t.Helper()
	b, err := Open(address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// proxy serves a back end over a real socket, and returns its address.
func proxy(t *testing.T, b backend.Backend) string {
	t.Helper()
	f := overhttp.Handler(b)
	s := httptest.NewUnstartedServer(f)
	s.Config.RegisterOnShutdown(f.Drain)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// TestSuite runs the suite over a real server and a failover, and through a proxy of each kind of back end. With
// -short it runs every third case behind the first.
func TestSuite(t *testing.T) {
	for _, run := range []struct {
		name string
		open func(t *testing.T) backend.Backend
	}{
		{"server", func(t *testing.T) backend.Backend { return open(t, "http://"+serve(t), Options{}) }},
		{"proxy of a server", func(t *testing.T) backend.Backend {
			return open(t, "http://"+proxy(t, open(t, "http://"+serve(t), Options{})), Options{})
		}},
		{"proxy of the engine", func(t *testing.T) backend.Backend {
			return open(t, "http://"+proxy(t, open(t, "kestrel://"+t.TempDir(), Options{})), Options{})
		}},
		{"proxy of a file", func(t *testing.T) backend.Backend {
			file := open(t, "sqlite://"+filepath.Join(t.TempDir(), "q.db"), Options{})
			return open(t, "http://"+proxy(t, file), Options{})
		}},
		{"failover", func(t *testing.T) backend.Backend { return open(t, "failover://127.0.0.1:1,"+serve(t), Options{}) }},
		{"proxy of a failover", func(t *testing.T) backend.Backend {
			f := open(t, "failover://127.0.0.1:1,"+serve(t), Options{})
			return open(t, "http://"+proxy(t, f), Options{})
		}},
		{"proxy of a hash", func(t *testing.T) backend.Backend {
			h := open(t, "hash://127.0.0.1:1|"+serve(t)+","+serve(t), Options{})
			return open(t, "http://"+proxy(t, h), Options{})
		}},
	} {
		t.Run(run.name, func(t *testing.T) {
			t.Parallel()
			for i, c := range backendtest.Names() {
				if testing.Short() && run.name != "server" && i%6 != 1 {
					continue
				}
				t.Run(c, func(t *testing.T) {
					t.Parallel() // most of them wait
					backendtest.RunCase(t, c, run.open(t))
				})
			}
		})
	}
}

// TestAccount checks which account calls without one are about.
func TestAccount(t *testing.T) {
	store := open(t, "memory://", Options{Account: "acme"})
	server := proxy(t, store)
	k := backend.Key{Queue: backend.Queue{Name: "jobs"}, ID: "m"}
	if _, err := open(t, "http://"+server+"/acme/", Options{}).Put(t.Context(), k, []byte("x"), backend.Attributes{}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		b    backend.Backend
		want error
	}{
		{store, nil},
		{open(t, "http://"+server, Options{Account: "acme"}), nil},
		{open(t, "http://"+server+"/other", Options{}), backend.ErrNoAccount},
		{open(t, "http://"+server, Options{}), backend.ErrNoAccount},
	} {
		if _, err := tt.b.Message(t.Context(), k, backend.All); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("Message = %v, want %v", err, tt.want)
		}
		if _, err := tt.b.Queues(t.Context(), "", backend.Names{}); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("Queues = %v, want %v", err, tt.want)
		}
	}
}

// TestDirectory checks that a directory has its messages when it is opened again.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	k := backend.Key{Queue: backend.Queue{Name: "jobs"}, ID: "m"}
	b := open(t, "kestrel://"+dir, Options{})
	if _, err := b.Put(t.Context(), k, []byte("x"), backend.Attributes{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("kestrel://"+dir, Options{}); !errors.Is(err, engine.ErrLocked) {
		t.Errorf("Open of a directory in use = %v", err)
	}
	b.Close()
	if m, err := open(t, "kestrel://"+dir, Options{}).Message(t.Context(), k, backend.All); err != nil || string(m.Body) != "x" {
		t.Errorf("Message = %+v, %v", m, err)
	}
}

// TestBadAddress checks what is said of addresses that name no back end.
func TestBadAddress(t *testing.T) {
	for _, tt := range []struct{ address, want string }{
		{"host:8080", "no scheme"},
		{"ftp://host", "the scheme is not known"},
		{"kestrel://host:22133", "names servers of Kestrel's own protocol"},
		{"memory://x", "has no name"},
		{"sqlite://", "which file?"},
		{"http://host/a/b", "no account"},
		{"http://u:s3cret@", "want http://host:port"},
		{"http://h\x00/", "no URL"},
		{"failover://a,hash://b", "cannot be a part"},
		{"hash://a:1,a:1", "two members have the name http://a:1"},
		{"hash://memory://,x\x00", "want http://host:port"},
		{"failover://", "want http://host:port"},
	} {
		b, err := Open(tt.address, Options{})
		if err == nil {
			b.Close()
			t.Errorf("Open(%q) succeeds", tt.address)
		} else if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Open(%q) = %v, which lacks %q, or has the password", tt.address, err, tt.want)
		}
	}
}

// TestUser checks that the user reaches the server, and not the address of another one.
func TestUser(t *testing.T) {
	got := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		got <- user + ":" + password
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer s.Close()
	b := open(t, strings.Replace(s.URL, "://", "://alice:s3cret@", 1), Options{})
	if err := b.Ping(t.Context()); !errors.Is(err, backend.ErrDenied) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Ping = %v", err)
	}
	if user := <-got; user != "alice:s3cret" {
		t.Errorf("the server sees %q", user)
	}
}

// TestNamesOfParts tests that the name of a part has no password. It is in errors, which clients of a proxy see, and it
// decides which part has a queue: a new password must not move any.
func TestNamesOfParts(t *testing.T) {
	for part, want := range map[string]string{
		"h:8080":                       "http://h:8080",
		"alice:s3cret@h:8080":          "http://h:8080",
		"alice:s3%40cret@h:8080":       "http://h:8080",
		"http://alice:s3cret@h:8080":   "http://h:8080",
		"https://alice@h:8080/account": "https://h:8080/account",
		"sqlite:///file":               "sqlite:///file",
		"[::1]:8080":                   "http://[::1]:8080",
	} {
		if got := nameOf(part); got != want {
			t.Errorf("nameOf(%q) = %q, want %q", part, got, want)
		}
	}
	b, err := Open("hash://alice:s3cret@127.0.0.1:1,bob:s3cret@127.0.0.1:2", Options{DialTimeout: time.Second, ReplyTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Accounts(t.Context(), backend.Names{}); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a server that is away: %v, want an error without the password", err)
	}
}
