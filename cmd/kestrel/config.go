package main

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
	formatJSON = "json"
)

// defaultDataDir is where queues are kept unless something else is said: below the working
// directory, so that any user can start a server and nobody's files are in the way.
const defaultDataDir = "./kestrel-data"

// noStatusFile is the name of the status file when there is to be none.
const noStatusFile = "none"

// config is what a server runs with. The options that engine and netloop have keep their place
// there.
type config struct {
	engine engine.Options
	net    netloop.Options

	listen     string // address, without a port
	ports      []port // by protocol
	adminPort  port
	filters    []string // admin_stats_filters
	profiling  bool
	histograms bool
	statusFile string // "" for the file status in the data directory, or noStatusFile
	logLevel   slog.Level
	logFormat  string

	warnings []string // what is accepted, but looks wrong
	idle     []string // options without an effect that were given
}

// defaultConfig is what holds where nothing is said.
func defaultConfig() *config {
	c := &config{
		engine: engine.Options{
			Dir:         defaultDataDir,
			JournalSize: engine.DefaultJournalSize,
			MaxQueues:   engine.DefaultMaxQueues,
		},
		net: netloop.Options{
			MaxOpenReads:   netloop.DefaultMaxOpenReads,
			MaxConnections: netloop.DefaultMaxConnections,
			DefaultStatus:  netloop.Up,
		},
		listen:     "127.0.0.1",
		histograms: true,
		logLevel:   slog.LevelInfo,
		logFormat:  formatText,
	}
	c.engine.Settings = engine.Settings{
		Default: engine.DefaultQueueOptions(),
		Queues:  make(map[string]engine.QueueOptions),
		Aliases: make(map[string][]string),
	}
	for _, p := range protocols() {
		c.ports = append(c.ports, p.port)
	}
	return c
}

// finish sets what follows from other options.
func (c *config) finish() {
	switch c.statusFile {
	case "":
		c.net.StatusFile = filepath.Join(c.engine.Dir, "status")
	case noStatusFile:
		c.net.StatusFile = ""
	default:
		c.net.StatusFile = c.statusFile
	}
	c.engine.NoHistograms, c.net.NoHistograms = !c.histograms, !c.histograms
	for i, p := range protocols() {
		p.apply(&c.net, c.addr(i))
	}
}

// addr is where the i-th protocol is to be spoken; "" if it is off.
func (c *config) addr(i int) string {
	return c.at(c.ports[i])
}

// adminAddr is where operators are to be answered; "" if nowhere.
func (c *config) adminAddr() string { return c.at(c.adminPort) }

func (c *config) at(n port) string {
	switch n {
	case portOff:
		return ""
	case portAuto:
		return net.JoinHostPort(c.listen, "0")
	default:
		return net.JoinHostPort(c.listen, strconv.Itoa(int(n)))
	}
}
