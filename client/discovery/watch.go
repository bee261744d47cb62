package discovery

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	// rereadPeriod is how often Watch reads the sets anew though nobody reported a change, and all members of them.
	rereadPeriod = 10 * time.Second
	// retryPeriod is how long after a failure Watch tries again.
	retryPeriod = time.Second
)

// Members are those of the two sets that serve, each in the order in which they joined.
type Members struct{ Read, Write []Member }

// Watch reports the members of both sets at once and after every change, until ctx ends; it then
// returns nil. It returns an error, and has reported nothing, only if the configuration is not valid.
//
// While ZooKeeper is away it reports nothing and goes on trying. When it is back all sessions may have ended, and every
// server announces itself again when it notices. So members of before stay for a few seconds, each until it is back.
// Otherwise all clients would go to the server that is back first. The same holds when all members vanish together, and
// ZooKeeper seems well. A set that does not exist has no members. Report is called by one goroutine and may keep its
// argument.
func Watch(ctx context.Context, config Config, report func(Members)) error {
	if err := config.Validate(); err != nil {
		return err
	}
	config = config.withDefaults()
	return watch(ctx, config, config.dial, report)
}

func watch(ctx context.Context, config Config, dial func(func()) (keeper, error), report func(Members)) error {
	w := &watcher{
		pass: pass{config: config}, kick: make(chan struct{}, 1), bad: make(map[string]bool),
		armed: make(map[string]<-chan zk.Event), known: make(map[string]serverSet),
	}
	defer w.pass.close()
	release := func() bool { return true }
	defer func() { release() }()
	connect := func(kick func()) (keeper, error) {
		release()
		conn, err := dial(kick)
		if err == nil {
			release = context.AfterFunc(ctx, conn.Close) // ends what waits for a ZooKeeper that does not answer
		}
		return conn, err
	}
	failing := false
	var last [2][]string // what was reported, as keys
	var rolls [2]roll
	var session int64 // of the last pass that succeeded; zero before
	for first := true; ; {
		err := w.pass.connect(connect, func() { signal(w.kick) })
		var found [2][]node
		if err == nil {
			found, err = w.readBoth()
		}
		if ctx.Err() != nil {
			return nil
		}
		if w.pass.outcome(err); w.pass.conn == nil {
			clear(w.armed)
		}
		wait := rereadPeriod
		if w.missing {
			wait = retryPeriod
		}
		switch {
		case err != nil:
			wait = retryPeriod
			if !failing {
				config.Logger.Warn("ZooKeeper cannot be read: the servers known before are used, and it is tried again"+
					" every second", "err", err)
			}
			failing = true
		default:
			now, id := time.Now(), w.pass.conn.SessionID()
			outage := failing && !first || session != 0 && id != session
			failing, session = false, id
			for i := range found {
				found[i] = rolls[i].call(found[i], now, outage)
				if rolls[i].returning(now) {
					wait = retryPeriod
				}
			}
			keys := [2][]string{keysOf(found[0]), keysOf(found[1])}
			if first || !slices.Equal(keys[0], last[0]) || !slices.Equal(keys[1], last[1]) {
				first, last = false, keys
				report(Members{Read: membersOf(found[0]), Write: membersOf(found[1])})
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-w.kick:
			timer.Stop()
			if err != nil { // events of a connection that fails come in bursts
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(retryPeriod):
				}
			}
		}
	}
}

// watcher reads sets. One goroutine uses it.
type watcher struct {
	pass pass
	kick chan struct{}
	bad  map[string]bool // nodes that could not be understood and have been logged
	// armed are the watches of the sets, by directory, which end with their first event. The library
	// keeps each until then, so one that is armed is not armed again.
	armed   map[string]<-chan zk.Event
	missing bool // a set did not exist

	// known are the sets as they were read last, by directory, so that a change costs one request for each new member.
	known   map[string]serverSet
	session int64     // in which known was read
	all     time.Time // when all members were read last: somebody may have changed what one says
}

// serverSet is a set as it was read.
type serverSet struct {
	created int64           // the transaction that made its directory; names are not used again within one
	nodes   map[string]node // by name
}

// node is a member as ZooKeeper has it.
type node struct {
	path    string
	version int32
	owner   int64 // the session that it lives with
	member  Member
	bad     bool // it could not be understood
}

// identity tells a node from another that has its path later.
func (n node) identity() string { return fmt.Sprintf("%s %d", n.path, n.owner) }

// key tells a node from what it was before.
func (n node) key() string { return fmt.Sprintf("%s %d %s", n.path, n.version, n.member.Service) }

func keysOf(nodes []node) (keys []string) {
	for _, n := range nodes {
		keys = append(keys, n.key())
	}
	return keys
}

func membersOf(nodes []node) (members []Member) {
	for _, n := range nodes {
		members = append(members, n.member)
	}
	return members
}

// readBoth reads the sets read and write.
func (w *watcher) readBoth() (found [2][]node, err error) {
	w.missing = false
	now, id := time.Now(), w.pass.conn.SessionID()
	whole := id != w.session || now.Sub(w.all) >= rereadPeriod
	if whole {
		clear(w.known)
	}
	for i, name := range []string{readSet, writeSet} {
		if found[i], err = w.read(path.Join(w.pass.config.Path, name)); err != nil {
			return found, err
		}
	}
	if whole {
		w.all, w.session = now, id
	}
	return found, nil
}

// read reads the set at dir, and has w.kick signalled when its members change. It asks for the members that are not
// known.
func (w *watcher) read(dir string) (found []node, err error) {
	names, stat, err := w.children(dir)
	if errors.Is(err, zk.ErrNoNode) {
		w.missing = true
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("server set %s: %w", dir, err)
	}
	before := w.known[dir]
	if before.created != stat.Czxid {
		before.nodes = nil
	}
	now := serverSet{created: stat.Czxid, nodes: make(map[string]node)}
	slices.Sort(names)
	for _, name := range names {
		if !memberName.MatchString(name) {
			continue
		}
		n, known := before.nodes[name]
		if !known {
			if n, err = w.readMember(path.Join(dir, name)); errors.Is(err, zk.ErrNoNode) {
				continue // it has left meanwhile
			}
			if err != nil {
				return nil, err
			}
		}
		now.nodes[name] = n
		if !n.bad && n.member.Status == Alive {
			found = append(found, n)
		}
	}
	w.known[dir] = now
	return found, nil
}

// readMember reads one node.
func (w *watcher) readMember(at string) (node, error) {
	data, stat, err := w.pass.conn.Get(at)
	if err != nil {
		return node{}, fmt.Errorf("read %s: %w", at, err)
	}
	n := node{path: at, version: stat.Version, owner: stat.EphemeralOwner}
	if n.member, err = ParseMember(data); err != nil {
		n.bad = true
		if !w.bad[at] && len(w.bad) < 1000 {
			w.bad[at] = true
			w.pass.config.Logger.Warn("member of a server set ignored", "node", at, "err", err)
		}
	}
	return n, nil
}

// children lists the nodes in dir, and watches them. The event kicks, as all events do.
func (w *watcher) children(dir string) (names []string, stat *zk.Stat, err error) {
	if armed := w.armed[dir]; armed != nil {
		select {
		case <-armed:
			delete(w.armed, dir)
		default:
			return w.pass.conn.Children(dir)
		}
	}
	names, stat, armed, err := w.pass.conn.ChildrenW(dir)
	if err == nil {
		w.armed[dir] = armed
	}
	return names, stat, err
}
