package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConfigValidate(t *testing.T) {
	c := Config{Path: "kestrel/", Credentials: "user", ACL: "all", SessionTimeout: -1}
	err := c.Validate()
	for _, want := range []string{
		"no ZooKeeper hosts", `path "kestrel/": want an absolute path`, "credentials: want user:password",
		`acl "all": want "open" or "creator"`, "session timeout is negative",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, without %q", err, want)
		}
	}
	if err := (Config{Hosts: []string{"a"}, Path: "/k", ACL: Creator}).Validate(); err == nil {
		t.Error("acl creator without credentials is accepted")
	}
}

// fakeKeeper is a ZooKeeper in memory, for what a real one does only with bad luck.
type fakeKeeper struct {
	mu      sync.Mutex
	session int64
	created int64 // the transaction that made the sets
	next    int
	nodes   map[string]int64 // owner by path
	calls   []string
	data    map[string]string // by path, of nodes that have other data than fullJSON
	away    error             // what reading fails with
	// create, unless nil, is asked before a node is made, and its error is returned afterwards.
	create func(path string) error
}

func newFakeKeeper() *fakeKeeper {
	return &fakeKeeper{session: 7, nodes: map[string]int64{"/k": 0, "/k/read": 0, "/k/write": 0}}
}

func (f *fakeKeeper) Children(dir string) (names []string, _ *zk.Stat, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away != nil {
		return nil, nil, f.away
	}
	if _, ok := f.nodes[dir]; !ok {
		return nil, nil, zk.ErrNoNode
	}
	for path := range f.nodes {
		if name, ok := strings.CutPrefix(path, dir+"/"); ok && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names, &zk.Stat{Czxid: f.created}, nil
}

func (f *fakeKeeper) ChildrenW(dir string) ([]string, *zk.Stat, <-chan zk.Event, error) {
	names, stat, err := f.Children(dir)
	return names, stat, nil, err
}

func (f *fakeKeeper) Get(path string) ([]byte, *zk.Stat, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	owner, ok := f.nodes[path]
	if !ok {
		return nil, nil, zk.ErrNoNode
	}
	f.calls = append(f.calls, "get "+path)
	return []byte(cmp.Or(f.data[path], fullJSON)), &zk.Stat{EphemeralOwner: owner}, nil
}

func (f *fakeKeeper) Create(path string, _ []byte, flags int32, _ []zk.ACL) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	owner := int64(0)
	if flags == zk.FlagEphemeralSequential {
		path, owner = fmt.Sprintf("%s%010d", path, f.next), f.session
		f.next++
	}
	if _, ok := f.nodes[path]; ok {
		return "", zk.ErrNodeExists
	}
	f.nodes[path] = owner
	f.calls = append(f.calls, "create "+path)
	if f.create != nil {
		return path, f.create(path)
	}
	return path, nil
}

func (f *fakeKeeper) Delete(path string, _ int32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.nodes, path)
	f.calls = append(f.calls, "delete "+path)
	return nil
}

func (f *fakeKeeper) AddAuth(string, []byte) error { return nil }
func (f *fakeKeeper) SessionID() int64             { f.mu.Lock(); defer f.mu.Unlock(); return f.session }
func (f *fakeKeeper) Close()                       {}

// members returns the nodes that the present session owns in a set.
func (f *fakeKeeper) members(dir string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for path, owner := range f.nodes {
		if strings.HasPrefix(path, dir+"/") && owner == f.session {
			n++
		}
	}
	return n
}

// TestUncertainCreate loses the answer to a creation: the node is there, and no second one stays.
func TestUncertainCreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeKeeper()
		lost := 3
		f.create = func(string) error {
			if lost--; lost >= 0 {
				return zk.ErrConnectionClosed
			}
			return nil
		}
		a, err := announce(Config{Hosts: []string{"z"}, Path: "/k"}, full, func(func()) (keeper, error) { return f, nil })
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close(t.Context())
		if err := a.Set(t.Context(), Sets{Read: true, Write: true}); err != nil {
			t.Fatal(err)
		}
		if r, w := f.members("/k/read"), f.members("/k/write"); r != 1 || w != 1 {
			t.Errorf("%d nodes in read and %d in write, want one each", r, w)
		}
	})
}

// TestSlowNames has the names of ZooKeeper's hosts be looked up for long. Nobody waits for that who asks for the state,
// or changes the wish.
func TestSlowNames(t *testing.T) {
	looked, found := make(chan struct{}, 1), make(chan struct{})
	a, err := announce(Config{Hosts: []string{"z"}, Path: "/k"}, full, func(func()) (keeper, error) {
		looked <- struct{}{}
		<-found
		return nil, errors.New("no such host")
	})
	if err != nil {
		t.Fatal(err)
	}
	<-looked
	asked := make(chan State)
	go func() { asked <- a.State() }()
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("State waits for a name")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Set(over, Sets{Read: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("Set = %v", err)
	}
	close(found)
	a.Close(over)
}

// TestSessionEnds has the session end, and its nodes with it: a second later the server is back.
func TestSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeKeeper()
		a, err := announce(Config{Hosts: []string{"z"}, Path: "/k"}, full, func(func()) (keeper, error) { return f, nil })
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close(t.Context())
		if err := a.Set(t.Context(), Sets{Read: true}); err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		for path, owner := range f.nodes {
			if owner == f.session {
				delete(f.nodes, path)
			}
		}
		f.session++
		f.mu.Unlock()
		time.Sleep(2 * period) // virtual
		if r, w := f.members("/k/read"), f.members("/k/write"); r != 1 || w != 0 {
			t.Errorf("%d nodes in read and %d in write, want 1 and 0", r, w)
		}
	})
}

// TestNamesAgain has ZooKeeper lose its data, or somebody remove the sets. The names of members then begin anew, and a
// server can get the name that another one had. Each server is in each set once.
func TestNamesAgain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		event func(f *fakeKeeper)
	}{
		{"ZooKeeper lost its data", func(f *fakeKeeper) { f.session++ }},
		{"somebody removed the sets", func(f *fakeKeeper) { f.created++ }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeKeeper()
				f.nodes["/k/read/member_0000000000"], f.next = 1000, 1 // of another server
				a, err := announce(Config{Hosts: []string{"z"}, Path: "/k"}, full, func(func()) (keeper, error) { return f, nil })
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close(t.Context())
				if err := a.Set(t.Context(), Sets{Read: true}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * period) // virtual, as the next: the server knows the owners of both nodes
				f.mu.Lock()
				tt.event(f)
				clear(f.nodes)
				f.next = 0
				f.mu.Unlock()
				time.Sleep(5 * period)
				if got := f.members("/k/read"); got != 1 {
					t.Errorf("the server is in the set read %d times", got)
				}
			})
		})
	}
}

// TestWatchAfterOutage has ZooKeeper come back without the nodes of any server, as when all sessions have ended. The
// servers announce themselves one after the other, and one of them not at all. Clients see no fewer servers until each
// has had its time. One that is back, and leaves again, is gone at once.
func TestWatchAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeKeeper()
		serve := func(node, host string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.nodes["/k/read/member_"+node], f.nodes["/k/write/member_"+node] = 1, 1
			data := strings.ReplaceAll(fullJSON, "10.1.2.3", host)
			f.data["/k/read/member_"+node], f.data["/k/write/member_"+node] = data, data
		}
		f.data = make(map[string]string)
		for i, host := range []string{"a", "b", "c"} {
			serve(fmt.Sprintf("000000000%d", i), host)
		}
		var reports []string
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- watch(ctx, Config{Hosts: []string{"z"}, Path: "/k", SessionTimeout: time.Hour, Logger: slog.New(slog.DiscardHandler)},
				func(func()) (keeper, error) { return f, nil }, func(m Members) {
					hosts := ""
					for _, member := range m.Write {
						hosts += member.Service.Host
					}
					if len(reports) == 0 || reports[len(reports)-1] != hosts {
						reports = append(reports, hosts)
					}
				})
		}()
		// All of these are virtual, and half a second away from each pass.
		time.Sleep(rereadPeriod + retryPeriod/2)
		f.mu.Lock()
		f.away = zk.ErrConnectionClosed
		f.mu.Unlock()
		time.Sleep(time.Minute)
		f.mu.Lock()
		f.away = nil
		f.session++
		for _, set := range []string{"/k/read/", "/k/write/"} {
			for i := range 3 {
				delete(f.nodes, fmt.Sprintf("%smember_000000000%d", set, i))
			}
		}
		f.mu.Unlock()
		time.Sleep(2 * retryPeriod)
		serve("0000000007", "b")
		time.Sleep(retryPeriod)
		serve("0000000008", "a") // and never c
		time.Sleep(retryPeriod)
		f.mu.Lock()
		delete(f.nodes, "/k/read/member_0000000007")
		delete(f.nodes, "/k/write/member_0000000007")
		f.mu.Unlock()
		time.Sleep(returnTime + rereadPeriod)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if want := []string{"abc", "bac", "ac", "a"}; !slices.Equal(reports, want) {
			t.Errorf("reports = %q, want %q", reports, want)
		}
	})
}

// TestWatchReadsNewMembers has servers come and go, one at a time. Watch reads each new member once. It reads all of
// them again after ten seconds, in a new session, or when somebody has removed the sets and made them again.
func TestWatchReadsNewMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeKeeper()
		f.nodes["/k/write/member_0000000000"] = 1
		var kick func()
		var hosts []string
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- watch(ctx, Config{Hosts: []string{"z"}, Path: "/k", SessionTimeout: time.Hour, Logger: slog.New(slog.DiscardHandler)},
				func(k func()) (keeper, error) { kick = k; return f, nil }, func(m Members) {
					hosts = nil
					for _, member := range m.Read {
						hosts = append(hosts, member.Service.Host)
					}
				})
		}()
		for _, step := range []struct {
			what   string
			change func()
			wait   time.Duration // virtual
			gets   int
			hosts  string
		}{
			{"one joins", func() { f.nodes["/k/read/member_0000000001"] = 1 }, 0, 1, "10.1.2.3"},
			{"another joins", func() { f.nodes["/k/read/member_0000000002"] = 1 }, 0, 1, "10.1.2.3 10.1.2.3"},
			{"one leaves", func() { delete(f.nodes, "/k/read/member_0000000001") }, 0, 0, "10.1.2.3"},
			{"one is another", func() {
				f.data = map[string]string{"/k/read/member_0000000002": strings.ReplaceAll(fullJSON, "10.1.2.3", "b")}
			},
				rereadPeriod, 2, "b"},
			{"nothing", func() {}, 0, 0, "b"},
			{"another session", func() { f.session++ }, 0, 2, "b"},
			{"other sets of the same names", func() { f.created++; f.data = nil }, 0, 2, "10.1.2.3"},
		} {
			synctest.Wait()
			f.mu.Lock()
			f.calls = nil
			step.change()
			f.mu.Unlock()
			time.Sleep(step.wait)
			kick()
			synctest.Wait()
			if got := strings.Join(hosts, " "); len(f.calls) != step.gets || got != step.hosts {
				t.Errorf("%s: the requests are %q and the readers %q, want %d and %q", step.what, f.calls, got, step.gets, step.hosts)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestOrder joins read before write, leaves write before read, and asks for each member's owner once.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeKeeper()
		a, err := announce(Config{Hosts: []string{"z"}, Path: "/k"}, full, func(func()) (keeper, error) { return f, nil })
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Set(t.Context(), Sets{Read: true, Write: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * period) // virtual
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"create /k/read/member_0000000000", "create /k/write/member_0000000001",
			"get /k/read/member_0000000000", "get /k/write/member_0000000001",
			"delete /k/write/member_0000000001", "delete /k/read/member_0000000000",
		}
		if !reflect.DeepEqual(f.calls, want) {
			t.Errorf("calls = %q\nwant %q", f.calls, want)
		}
	})
}
