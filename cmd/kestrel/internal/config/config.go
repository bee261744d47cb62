package config

import (
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/netloop/certs"
	"github.com/kestrelmq/kestrel/netloop/ports"
)

// Names of what the log can look like.
const (
	formatText = "text"
	FormatJSON = "json"
)

// What the reply to a GET of the memcache protocol repeats.
const (
	replyQueue   = "queue"
	replyRequest = "request"
)

// defaultDataDir is where queues are kept unless something else is said. It is below the working directory, so any user
// can start a server and nobody's files are in the way.
const defaultDataDir = "./kestrel-data"

// noStatusFile is the name of the status file when there is to be none.
const noStatusFile = "none"

// Config is what a server runs with. The options that engine and netloop have keep their place
// there.
type Config struct {
	Engine engine.Options
	Net    netloop.Options

	listen    string // address, without a port
	ports     []port // by protocol
	adminPort port
	// Listeners are those of [[listener]], in the order of the file.
	Listeners  []Listener
	AdminPorts []netloop.Listener // of Listeners, those of operators
	// Users are those of the file, and of users_file; nil if there are none.
	Users     *access.Users
	usersFile string
	// TLS are the files of [tls.NAME]. NetTLS and AdminTLS say, for each of Net.Listeners and AdminPorts, which of them
	// it uses; "" for none.
	TLS              map[string]certs.Files
	NetTLS, AdminTLS []string
	// SelfSigned encrypts listeners that use none of them with a certificate made at the start.
	SelfSigned bool
	AdminHosts []string
	// AdminGetControls lets a GET change things on the admin port.
	AdminGetControls bool

	Filters    []string // admin_stats_filters
	Profiling  bool
	histograms bool
	replyKey   string // replyQueue or replyRequest
	statusFile string // "" for the file status in the data directory, or noStatusFile
	LogLevel   slog.Level
	LogFormat  string
	Discovery  Discovery

	Warnings []string // what is accepted, but looks wrong
	Idle     []string // options without an effect that were given
}

// Default returns what holds where nothing is said.
func Default() *Config {
	c := &Config{
		Engine: engine.Options{
			Dir:         defaultDataDir,
			JournalSize: engine.DefaultJournalSize,
			MaxQueues:   engine.DefaultMaxQueues,

			MaxFanoutChildren: engine.DefaultMaxFanoutChildren,
		},
		Net: netloop.Options{
			MaxOpenReads:   netloop.DefaultMaxOpenReads,
			MaxConnections: netloop.DefaultMaxConnections,
			EventLoop:      netloop.DefaultEventLoop,
			DefaultStatus:  netloop.Up,
		},
		listen:     "127.0.0.1",
		histograms: true,
		replyKey:   replyQueue,
		LogLevel:   slog.LevelInfo,
		LogFormat:  formatText,
		Discovery:  defaultDiscovery(),
	}
	c.Engine.Settings = engine.Settings{
		Default: engine.DefaultQueueOptions(),
		Queues:  make(map[string]engine.QueueOptions),
		Aliases: make(map[string][]string),
	}
	for _, p := range Protocols() {
		c.ports = append(c.ports, p.port)
	}
	return c
}

// finish sets what follows from other options.
func (c *Config) finish() {
	switch c.statusFile {
	case "":
		c.Net.StatusFile = filepath.Join(c.Engine.Dir, "status")
	case noStatusFile:
		c.Net.StatusFile = ""
	default:
		c.Net.StatusFile = c.statusFile
	}
	c.Net.ReplyWithKey = c.replyKey == replyRequest
	c.Engine.NoHistograms, c.Net.NoHistograms = !c.histograms, !c.histograms
	for i, p := range Protocols() {
		p.apply(&c.Net, c.addr(i))
	}
	if c.Users != nil {
		c.Net.Auth = c.authByDefault()
	}
	c.applyListeners()
}

// addr is where the i-th protocol is to be spoken; "" if it is off.
func (c *Config) addr(i int) string {
	return c.at(c.ports[i])
}

// ListenAddress is the address of every port.
func (c *Config) ListenAddress() string { return c.listen }

// AdminCount is how many ports there are for operators.
func (c *Config) AdminCount() int {
	n := len(c.AdminPorts)
	if c.AdminAddr() != "" {
		n++
	}
	return n
}

// Addresses are all addresses that the server listens on.
func (c *Config) Addresses() []string {
	list := []string{c.AdminAddr()}
	for i := range c.ports {
		list = append(list, c.addr(i))
	}
	for _, l := range c.Listeners {
		list = append(list, l.Port.Address)
	}
	return slices.DeleteFunc(list, func(addr string) bool { return addr == "" })
}

// AdminAddr is where operators are to be answered by admin_port; "" if it is off.
func (c *Config) AdminAddr() string { return c.at(c.adminPort) }

// AdminTCP is an address where operators are answered over TCP, by admin_port or a [[listener]]; "" if there is none.
func (c *Config) AdminTCP() string {
	addr := c.AdminAddr()
	for _, l := range c.AdminPorts {
		if addr == "" && !ports.IsUnix(l.Port.Address) {
			addr = l.Port.Address
		}
	}
	return addr
}

func (c *Config) at(n port) string {
	switch n {
	case portOff:
		return ""
	case portAuto:
		return net.JoinHostPort(c.listen, "0")
	default:
		return net.JoinHostPort(c.listen, strconv.Itoa(int(n)))
	}
}
