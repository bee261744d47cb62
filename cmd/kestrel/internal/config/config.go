package config

import (
	"log/slog"
	"net"
	"path/filepath"
	"strconv"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
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

// defaultDataDir is where queues are kept unless something else is said: below the working
// directory, so that any user can start a server and nobody's files are in the way.
const defaultDataDir = "./kestrel-data"

// noStatusFile is the name of the status file when there is to be none.
const noStatusFile = "none"

// Config is what a server runs with. The options that engine and netloop have keep their place
// there.
type Config struct {
	Engine engine.Options
	Net    netloop.Options

	listen     string // address, without a port
	ports      []port // by protocol
	adminPort  port
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

// defaultConfig is what holds where nothing is said.
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
}

// addr is where the i-th protocol is to be spoken; "" if it is off.
func (c *Config) addr(i int) string {
	return c.at(c.ports[i])
}

// ListenAddress is the address of every port.
func (c *Config) ListenAddress() string { return c.listen }

// AdminAddr is where operators are to be answered; "" if nowhere.
func (c *Config) AdminAddr() string { return c.at(c.adminPort) }

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
