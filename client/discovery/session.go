package discovery

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// Defaults of Config.
const (
	DefaultPort           = 2181
	DefaultSessionTimeout = 10 * time.Second
)

// ACL says who may change what an Announcer creates.
type ACL string

const (
	// Open lets every client of ZooKeeper change the sets, as the original did by default.
	Open ACL = "open"
	// Creator lets everybody read, and only those with the same credentials change.
	Creator ACL = "creator"
)

// Config says which ZooKeeper to use, and where in it.
type Config struct {
	// Hosts are servers of one ensemble, each as host or host:port.
	Hosts []string
	// SessionTimeout is how long a server that has died stays in the sets; zero means
	// DefaultSessionTimeout.
	SessionTimeout time.Duration
	// Path has the sets read and write below it, such as /kestrel/production.
	Path string
	// Credentials are user:password for ZooKeeper's digest scheme; "" for none.
	Credentials string
	// ACL is that of nodes that are created; "" means Open.
	ACL ACL
	// Logger takes what an operator should know; nil discards it.
	Logger *slog.Logger
}

// Names of the two sets.
const (
	readSet  = "read"
	writeSet = "write"
)

func (c Config) withDefaults() Config {
	if c.SessionTimeout == 0 {
		c.SessionTimeout = DefaultSessionTimeout
	}
	if c.ACL == "" {
		c.ACL = Open
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate reports every problem of c.
func (c Config) Validate() error {
	var errs []error
	if len(c.Hosts) == 0 {
		errs = append(errs, errors.New("no ZooKeeper hosts"))
	}
	if !strings.HasPrefix(c.Path, "/") || c.Path == "/" || path.Clean(c.Path) != c.Path {
		errs = append(errs, fmt.Errorf("path %q: want an absolute path such as /kestrel, without a slash at its end",
			c.Path))
	}
	if c.Credentials != "" && !strings.Contains(c.Credentials, ":") {
		errs = append(errs, errors.New("credentials: want user:password"))
	}
	if c.ACL != "" && c.ACL != Open && c.ACL != Creator {
		errs = append(errs, fmt.Errorf("acl %q: want %q or %q", c.ACL, Open, Creator))
	}
	if c.ACL == Creator && c.Credentials == "" {
		errs = append(errs, fmt.Errorf("acl %q needs credentials", Creator))
	}
	if c.SessionTimeout < 0 {
		errs = append(errs, fmt.Errorf("session timeout is negative: %s", c.SessionTimeout))
	}
	return errors.Join(errs...)
}

// acl returns the access list of nodes that are created.
func (c Config) acl() []zk.ACL {
	if c.ACL == Creator {
		return append(zk.WorldACL(zk.PermRead), zk.AuthACL(zk.PermAll)...)
	}
	return zk.WorldACL(zk.PermAll)
}

// keeper is what of a connection to ZooKeeper is used here.
type keeper interface {
	Children(node string) ([]string, *zk.Stat, error)
	ChildrenW(node string) ([]string, *zk.Stat, <-chan zk.Event, error)
	Get(node string) ([]byte, *zk.Stat, error)
	Create(node string, data []byte, flags int32, acl []zk.ACL) (string, error)
	Delete(node string, version int32) error
	AddAuth(scheme string, auth []byte) error
	SessionID() int64
	Close()
}

// dial returns a connection that connects in the background, and calls kick when something happens to
// it or to what it watches. Kick does not block.
func (c Config) dial(kick func()) (keeper, error) {
	s := &session{welcome: max(c.SessionTimeout/time.Duration(len(c.Hosts)), time.Second)} // as ZooKeeper's own client
	conn, _, err := zk.Connect(c.Hosts, c.SessionTimeout,
		zk.WithLogger(quietLogger{c.Logger}), zk.WithMaxBufferSize(maxReply), zk.WithDialer(s.dial),
		// The channel of events drops what finds it full; nothing is lost by that here, because a pass
		// looks at everything.
		zk.WithEventCallback(func(zk.Event) { kick() }))
	if err != nil {
		return nil, err
	}
	s.Conn = conn
	return s, nil
}

// quietLogger takes what the library logs about its connections.
type quietLogger struct{ log *slog.Logger }

func (l quietLogger) Printf(format string, args ...any) {
	l.log.Debug("zookeeper: " + fmt.Sprintf(format, args...))
}

// memberName matches the names of members among the nodes of a set.
var memberName = regexp.MustCompile(`^member_[0-9]+$`)

// signal wakes the reader of a channel of capacity 1; a wake-up that is still pending is enough.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
