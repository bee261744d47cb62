package spread

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/client/backend/backendtest"
	"github.com/kestrelmq/kestrel/client/backend/embedded"
	"github.com/kestrelmq/kestrel/client/backend/overhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a store behind HTTP over pipes, which can be killed and started again.
type server struct {
	t     *testing.T
	name  string
	store *embedded.Store
	pipes atomic.Pointer[backendtest.Pipes] // a connection may be dialled while it starts again
	http  *http.Server
	done  chan struct{}
}

func serve(t *testing.T, name string) *server {
	t.Helper()
	store, err := embedded.Memory(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, name: name, store: store}
	s.start()
	return s
}

func (s *server) start() {
	pipes := backendtest.NewPipes()
	s.http, s.done = &http.Server{Handler: overhttp.Handler(s.store)}, make(chan struct{})
	s.pipes.Store(pipes)
	go func() {
		defer close(s.done)
		s.http.Serve(pipes)
	}()
}

// kill ends the server with all its connections; its messages stay.
func (s *server) kill() {
	s.http.Close()
	<-s.done
}

func (s *server) end() {
	s.kill()
	s.store.Close()
}

// member is the server as a member.
func (s *server) member() Member {
	s.t.Helper()
	dial := func(ctx context.Context, network, address string) (c net.Conn, err error) {
		return s.pipes.Load().Dial(ctx, network, address)
	}
	r, err := overhttp.Open("http://"+s.name, overhttp.Options{Dial: dial})
	if err != nil {
		s.t.Fatal(err)
	}
	return Member{Name: s.name, Backend: r}
}

// isSample reports whether `make test` runs, and not CI: of what is long even with -short, it runs a sample.
func isSample() bool { return testing.Short() && os.Getenv("KESTREL_CI") == "" }

// TestSuite runs the suite over a failover, over a hash, and over a hash of two failovers. The first member of one of
// these two is dead. With -short it runs every fourth case.
func TestSuite(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (b backend.Backend, end func()){
		"failover": func(t *testing.T) (backend.Backend, func()) {
			one, two := serve(t, "one"), serve(t, "two")
			return Failover([]Member{one.member(), two.member()}, Options{}), func() { one.end(); two.end() }
		},
		"hash": func(t *testing.T) (backend.Backend, func()) {
			one, two, three := serve(t, "one"), serve(t, "two"), serve(t, "three")
			h, err := Hash([]Member{one.member(), two.member(), three.member()})
			if err != nil {
				t.Fatal(err)
			}
			return h, func() { one.end(); two.end(); three.end() }
		},
		"hash of failovers": func(t *testing.T) (backend.Backend, func()) {
			h, servers := hashOfFailovers(t)
			servers[0].kill()
			return h, func() {
				servers[0].store.Close()
				for _, s := range servers[1:] {
					s.end()
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i, c := range backendtest.Names() {
				if testing.Short() && i%4 != 0 {
					continue
				}
				if isSample() && c == "long list" && name != "hash of failovers" {
					continue // it takes as long as all others, and the hash of failovers has both ways
				}
				t.Run(c, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b, end := open(t)
						defer end()
						defer b.Close()
						backendtest.RunCase(t, c, b)
					})
				})
			}
		})
	}
}

// hashOfFailovers returns a hash of two failovers over four servers.
func hashOfFailovers(t *testing.T) (h *HashOf, servers []*server) {
	t.Helper()
	for i := range 4 {
		servers = append(servers, serve(t, fmt.Sprint("s", i)))
	}
	h, err := Hash([]Member{
		{"a", Failover([]Member{servers[0].member(), servers[1].member()}, Options{})},
		{"b", Failover([]Member{servers[2].member(), servers[3].member()}, Options{})},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, servers
}

// TestKill has a producer and a worker use a hash of two failovers while a server is killed, and comes back. Every
// Put is answered, every message that was acknowledged comes, and the worker hears of no failure but of outcomes
// that are not known.
func TestKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, servers := hashOfFailovers(t)
		defer func() {
			h.Close()
			for _, s := range servers {
				s.end()
			}
		}()
		queues := []backend.Queue{}
		for i := range 8 {
			queues = append(queues, backend.Queue{Account: "a", Name: fmt.Sprint("q", i)})
		}
		const rounds = 30
		acknowledged := map[string]bool{}
		for round := range rounds {
			switch round {
			case 10:
				servers[0].kill()
			case 20:
				servers[0].start()
				<-time.After(10 * time.Second) // a probe finds it
			}
			for _, q := range queues {
				id := fmt.Sprint(q.Name, ".", round)
				_, err := h.Put(t.Context(), backend.Key{Queue: q, ID: id}, nil, backend.Attributes{TTL: backend.Forever})
				if err != nil {
					t.Fatalf("Put in round %d = %v", round, err)
				}
				acknowledged[id] = true
			}
		}
		// What the second server took while the first was away is seen when the first is away again.
		got := map[string]bool{}
		take := func() {
			for _, q := range queues {
				list, err := h.DeleteMessages(t.Context(), q, backend.Match{Detail: backend.IDs})
				if err != nil && !errors.Is(err, backend.ErrNotFound) {
					t.Fatalf("DeleteMessages = %v", err)
				}
				for _, m := range list {
					if got[m.ID] {
						t.Errorf("message %s comes twice", m.ID)
					}
					got[m.ID] = true
				}
			}
		}
		take()
		first := len(got)
		servers[0].kill()
		take()
		if len(got) != len(acknowledged) || first == len(got) || first < len(got)/2 {
			t.Errorf("%d messages came, and %d more from the second server, want %d", first, len(got)-first, len(acknowledged))
		}
	})
}

// TestFailoverWait checks that a wait at the second member moves to the first one when that answers again. Once a
// member is known to be away, it costs a caller nothing.
func TestFailoverWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := serve(t, "one"), serve(t, "two")
		f := Failover([]Member{one.member(), two.member()}, Options{})
		defer func() {
			f.Close()
			one.end()
			two.end()
		}()
		q := backend.Queue{Account: "a", Name: "q"}
		one.kill()
		got := make(chan error, 1)
		go func() {
			_, err := f.DeleteMessages(t.Context(), q, backend.Match{Wait: time.Minute, Limit: 1})
			got <- err
		}()
		<-time.After(2 * time.Second)
		one.start()
		<-time.After(10 * time.Second)
		if created, err := one.store.Put(t.Context(), backend.Key{Queue: q, ID: "m"}, nil, backend.Attributes{}); !created || err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := <-got; err != nil || time.Since(began) > waitPiece {
			t.Errorf("the wait ends with %v after %v", err, time.Since(began))
		}
		one.kill()
		two.kill()
		if _, err := f.Put(t.Context(), backend.Key{Queue: q, ID: "m"}, nil, backend.Attributes{}); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("Put with no member = %v", err)
		}
		two.start()
		if _, err := f.Put(t.Context(), backend.Key{Queue: q, ID: "m"}, nil, backend.Attributes{}); err != nil {
			t.Errorf("Put with a member that nobody has probed yet = %v", err)
		}
	})
}

// lossy is a member whose Puts happen, and whose answers get lost.
type lossy struct{ backend.Backend }

func (l lossy) Put(ctx context.Context, k backend.Key, body []byte, a backend.Attributes) (bool, error) {
	if _, err := l.Backend.Put(ctx, k, body, a); err != nil {
		return false, err
	}
	return false, backend.Unknown(errors.New("the connection broke"))
}

// TestFailoverUnknown checks that a change whose outcome is not known is not made elsewhere too.
func TestFailoverUnknown(t *testing.T) {
	one, err := embedded.Memory(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	two, err := embedded.Memory(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := Failover([]Member{{"one", lossy{one}}, {"two", two}}, Options{})
	defer f.Close()
	k := backend.Key{Queue: backend.Queue{Account: "a", Name: "q"}, ID: "m"}
	if _, err := f.Put(t.Context(), k, nil, backend.Attributes{}); !errors.Is(err, backend.ErrUnknownOutcome) {
		t.Errorf("Put = %v", err)
	}
	if _, err := two.Accounts(t.Context(), backend.Names{}); !errors.Is(err, backend.ErrNoAccount) {
		t.Errorf("the second member has messages: %v", err)
	}
}

// TestOwners holds the places of queues, which must never change, and checks that a member more moves few.
func TestOwners(t *testing.T) {
	hash := func(names ...string) *HashOf {
		var members []Member
		for _, name := range names {
			members = append(members, Member{Name: name})
		}
		h, err := Hash(members)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	three, four := hash("a", "b", "c"), hash("b", "d", "c", "a")
	const queues = 3000
	count, moved := map[string]int{}, 0
	for i := range queues {
		q := backend.Queue{Account: "acme", Name: fmt.Sprint("q", i)}
		owner := three.Owner(q)
		count[owner]++
		if now := four.Owner(q); now != owner {
			if moved++; now != "d" {
				t.Fatalf("%v moves from %s to %s, which was there before", q, owner, now)
			}
		}
	}
	for name, n := range count {
		if n < queues/4 || n > queues*5/12 {
			t.Errorf("%s has %d queues of %d", name, n, queues)
		}
	}
	if moved < queues/5 || moved > queues*3/10 {
		t.Errorf("%d queues of %d move to the fourth member", moved, queues)
	}
	got := ""
	for i := range 12 {
		got += three.Owner(backend.Queue{Account: "acme", Name: fmt.Sprint("q", i)})
	}
	if want := "abccbcacacca"; got != want {
		t.Errorf("the owners are %s, want %s", got, want)
	}
	if _, err := Hash([]Member{{Name: "a"}, {Name: "a"}}); err == nil {
		t.Error("two members have one name")
	}
	if _, err := Hash(nil); err == nil {
		t.Error("a hash of nothing")
	}
}

// hasty is a back end that has nothing, and does not wait for it.
type hasty struct {
	backend.Backend
	asked *int
}

func (h hasty) DeleteMessages(context.Context, backend.Queue, backend.Match) ([]backend.Message, error) {
	if *h.asked++; *h.asked > 100 {
		panic("it is asked again and again")
	}
	return nil, backend.ErrNoQueue
}

// away is a back end that cannot be reached.
type away struct{ backend.Backend }

func (away) DeleteMessages(context.Context, backend.Queue, backend.Match) ([]backend.Message, error) {
	return nil, backend.Unavailable(errors.New("away"))
}
func (away) Ping(context.Context) error { return errors.New("away") }
func (away) Close() error               { return nil }

// TestFailoverHasty waits at a second member that answers at once, as a member does whose waits have been drained. The
// caller's wait ends too, and the failover does not ask that member in a busy loop.
func TestFailoverHasty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked int
		f := Failover([]Member{{"one", away{}}, {"two", hasty{away{}, &asked}}}, Options{})
		defer f.Close()
		q := backend.Queue{Account: "acme", Name: "jobs"}
		if _, err := f.DeleteMessages(t.Context(), q, backend.Match{Wait: time.Minute}); !errors.Is(err, backend.ErrNoQueue) {
			t.Errorf("DeleteMessages = %v, want ErrNoQueue", err)
		}
		if asked != 1 {
			t.Errorf("the member was asked %d times", asked)
		}
	})
}

// readOnly is a back end that answers, and takes nothing.
type readOnly struct{ backend.Backend }

func (readOnly) Put(context.Context, backend.Key, []byte, backend.Attributes) (bool, error) {
	return false, backend.Unavailable(errors.New("read only"))
}
func (readOnly) Ping(context.Context) error { return nil }

// TestFailoverReadOnly puts for a minute with a first member that is read only, and so answers each probe. It is tried
// less and less often, and so fills no log.
func TestFailoverReadOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second, err := embedded.Memory(embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var log lines
		f := Failover([]Member{{"one", readOnly{away{}}}, {"two", second}}, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		defer f.Close()
		k := backend.Key{Queue: backend.Queue{Account: "acme", Name: "jobs"}, ID: "m"}
		for range 6000 {
			if _, err := f.Put(t.Context(), k, nil, backend.Attributes{}); err != nil {
				t.Fatal(err)
			}
			<-time.After(10 * time.Millisecond)
		}
		if n := log.n.Load(); n > 60 {
			t.Errorf("%d lines of the log in a minute", n)
		}
	})
}

// lines counts what is written.
type lines struct{ n atomic.Int32 }

func (l *lines) Write(p []byte) (int, error) {
	l.n.Add(1)
	return len(p), nil
}
