package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// period is how often an Announcer compares ZooKeeper with its wish, also when nothing happens.
const period = time.Second

// Sets says in which sets a server is.
type Sets struct {
	Read  bool // its items may be taken
	Write bool // it takes items
}

// State is how far an Announcer is.
type State struct {
	Wanted    Sets
	Announced Sets      // as far as ZooKeeper has confirmed it
	Err       error     // why the last pass failed; nil if it did not
	Since     time.Time // when Err became nil, or something else than nil
}

// Announcer keeps a server in the sets that it wants to be in. Its methods may be called from any
// goroutine.
type Announcer struct {
	// Immutable.
	config Config
	log    *slog.Logger
	data   []byte // of the member
	kick   chan struct{}
	dial   func(kick func()) (keeper, error)
	stop   context.CancelFunc
	ended  chan struct{} // closed when run has returned

	mu    sync.Mutex
	conn  keeper // nil before the first connection
	state State
	wish  uint64        // counts calls of Set
	met   uint64        // wish that ZooKeeper has confirmed
	seen  chan struct{} // closed, and made anew, after each pass
}

// Announce begins to announce m, in no set as yet. It returns an error if the configuration is not
// valid; a ZooKeeper that cannot be reached is none.
func Announce(config Config, m Member) (*Announcer, error) {
	return announce(config, m, nil)
}

func announce(config Config, m Member, dial func(func()) (keeper, error)) (*Announcer, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	data, err := m.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	if dial == nil {
		dial = config.dial
	}
	ctx, stop := context.WithCancel(context.Background())
	a := &Announcer{
		config: config, log: config.Logger, data: data, dial: dial, kick: make(chan struct{}, 1), stop: stop,
		ended: make(chan struct{}), seen: make(chan struct{}), state: State{Since: time.Now()},
	}
	go a.run(ctx)
	return a, nil
}

// Set changes the sets that the server wants to be in, and waits until ZooKeeper has confirmed it, or
// ctx ends. The wish stays when ctx ends: the Announcer goes on trying. The error then says why
// ZooKeeper has not confirmed it.
func (a *Announcer) Set(ctx context.Context, want Sets) error {
	a.mu.Lock()
	a.state.Wanted = want
	a.wish++
	wish := a.wish
	a.mu.Unlock()
	signal(a.kick)
	for {
		a.mu.Lock()
		met, seen, err := a.met >= wish, a.seen, a.state.Err
		a.mu.Unlock()
		if met {
			return nil
		}
		select {
		case <-seen:
		case <-a.ended:
			return errors.New("the announcer is closed")
		case <-ctx.Done():
			return fmt.Errorf("ZooKeeper has not confirmed it: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// State returns how far the Announcer is.
func (a *Announcer) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// Close takes the server out of all sets and ends the session. If ctx ends first, ZooKeeper takes the
// server out when the session times out.
func (a *Announcer) Close(ctx context.Context) error {
	err := a.Set(ctx, Sets{})
	a.stop()
	a.mu.Lock()
	if a.conn != nil {
		a.conn.Close() // ends what waits for a ZooKeeper that does not answer
	}
	a.mu.Unlock()
	<-a.ended
	return err
}

// run makes ZooKeeper agree with the wish until ctx ends.
func (a *Announcer) run(ctx context.Context) {
	defer close(a.ended)
	p := &pass{config: a.config, data: a.data, owners: make(map[string]owners)}
	defer p.close()
	dial := func(kick func()) (keeper, error) {
		conn, err := a.dial(kick) // which may look up names for seconds
		if err != nil {
			return nil, err
		}
		a.mu.Lock()
		a.conn = conn
		a.mu.Unlock()
		if ctx.Err() != nil { // Close has not seen it
			conn.Close()
		}
		return conn, nil
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		a.mu.Lock()
		wish, want := a.wish, a.state.Wanted
		a.mu.Unlock()
		err := p.connect(dial, func() { signal(a.kick) })
		if err == nil {
			err = p.reconcile(want)
		}
		p.outcome(err)
		a.passed(wish, want, err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-a.kick:
		}
	}
}

// passed notes how a pass for a wish ended, and logs it if the last one ended otherwise.
func (a *Announcer) passed(wish uint64, want Sets, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.state
	a.state.Err = err
	if err == nil {
		a.met, a.state.Announced = wish, want
	}
	switch {
	case err != nil && was.Err == nil:
		a.state.Since = time.Now()
		a.log.Warn("ZooKeeper cannot be used: the server serves on, and tries again every second", "err", err)
	case err == nil && (was.Err != nil || was.Announced != want):
		if was.Err != nil {
			a.state.Since = time.Now()
		}
		a.log.Info("announced in ZooKeeper", "path", a.config.Path, "read", want.Read, "write", want.Write)
	}
	close(a.seen)
	a.seen = make(chan struct{})
}

// pass compares ZooKeeper with a wish and corrects the difference. One goroutine uses it.
type pass struct {
	config Config
	data   []byte
	conn   keeper // nil before the first connection
	authed bool
	owners map[string]owners // of the sets, by directory
	// failing is since when every pass has failed; zero if the last one succeeded.
	failing time.Time
}

// owners are the sessions that own the members of one set, by path. ZooKeeper gives a path to no second member while
// it keeps the set. It begins anew when somebody removed the set, or when ZooKeeper lost its data, and all sessions
// with it.
type owners struct {
	session int64 // that looked
	set     int64 // the transaction that created the set
	of      map[string]int64
}

// connect makes the connection, which outlives sessions and servers that come and go.
func (p *pass) connect(dial func(func()) (keeper, error), kick func()) (err error) {
	if p.conn == nil {
		if p.conn, err = dial(kick); err != nil {
			p.conn = nil
			return err
		}
	}
	if p.config.Credentials != "" && !p.authed {
		if err := p.conn.AddAuth("digest", []byte(p.config.Credentials)); err != nil {
			return fmt.Errorf("send credentials: %w", err)
		}
		p.authed = true // the library sends them again with each new connection
	}
	return nil
}

// outcome notes how a pass ended. When passes have failed for so long that the session must have ended, the next one
// begins with another connection. A ZooKeeper that has lost its data refuses a connection that has seen later data, for
// ever.
func (p *pass) outcome(err error) {
	switch {
	case err == nil:
		p.failing = time.Time{}
	case p.failing.IsZero():
		p.failing = time.Now()
	case time.Since(p.failing) > 2*p.config.SessionTimeout:
		p.close()
		p.conn, p.authed, p.failing = nil, false, time.Time{}
	}
}

func (p *pass) close() {
	if p.conn != nil {
		p.conn.Close()
	}
}

// reconcile makes the server a member of the sets that it wants to be in, and of no other. It leaves
// write before read, and joins read before write: so no producer finds it in write when no consumer
// does in read.
func (p *pass) reconcile(want Sets) error {
	for _, step := range []struct {
		set  string
		want bool
		join bool
	}{
		{writeSet, want.Write, false},
		{readSet, want.Read, false},
		{readSet, want.Read, true},
		{writeSet, want.Write, true},
	} {
		if step.want != step.join {
			continue
		}
		if err := p.correct(path.Join(p.config.Path, step.set), step.want); err != nil {
			return fmt.Errorf("server set %s: %w", path.Join(p.config.Path, step.set), err)
		}
	}
	return nil
}

// correct makes the server a member of the set at dir, exactly once, or takes it out.
func (p *pass) correct(dir string, want bool) error {
	mine, err := p.mine(dir)
	if errors.Is(err, zk.ErrNoNode) && !want {
		return nil // a set that does not exist
	}
	if errors.Is(err, zk.ErrNoNode) {
		err = p.create(dir)
	}
	if err != nil {
		return err
	}
	keep := 0
	if want {
		keep = 1
	}
	for len(mine) > keep { // a creation whose answer was lost left one more
		last := mine[len(mine)-1]
		if err := p.conn.Delete(last, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return fmt.Errorf("delete %s: %w", last, err)
		}
		mine = mine[:len(mine)-1]
	}
	if len(mine) == keep {
		return nil
	}
	_, err = p.conn.Create(dir+"/member_", p.data, zk.FlagEphemeralSequential, p.config.acl())
	return err
}

// mine returns the paths of the members of the set at dir that this session owns, in order.
func (p *pass) mine(dir string) (paths []string, err error) {
	session := p.conn.SessionID()
	names, stat, err := p.conn.Children(dir)
	if err != nil {
		return nil, err
	}
	before := p.owners[dir]
	if before.session != session || before.set != stat.Czxid {
		before.of = nil
	}
	known := make(map[string]int64, len(names))
	slices.Sort(names)
	for _, name := range names {
		if !memberName.MatchString(name) {
			continue
		}
		node := path.Join(dir, name)
		owner, ok := before.of[node]
		if !ok {
			_, stat, err := p.conn.Get(node)
			if errors.Is(err, zk.ErrNoNode) {
				continue // it has left meanwhile
			}
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", node, err)
			}
			owner = stat.EphemeralOwner
		}
		known[node] = owner
		if owner == session {
			paths = append(paths, node)
		}
	}
	p.owners[dir] = owners{session, stat.Czxid, known}
	if p.conn.SessionID() != session {
		return nil, zk.ErrSessionExpired // what was found belongs to a session that has ended
	}
	return paths, nil
}

// create creates the set at dir, and the nodes above it.
func (p *pass) create(dir string) error {
	for i := 1; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		_, err := p.conn.Create(dir[:i], nil, 0, p.config.acl())
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return fmt.Errorf("create %s: %w", dir[:i], err)
		}
	}
	return nil
}

// String lists the sets.
func (s Sets) String() string {
	var names []string
	if s.Read {
		names = append(names, readSet)
	}
	if s.Write {
		names = append(names, writeSet)
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, " and ")
}
