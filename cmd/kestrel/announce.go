package main

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/journalcmd"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
)

// announceStart logs what is about to be started.
func (d *daemon) announceStart() {
	c := d.config
	dir, err := filepath.Abs(c.Engine.Dir)
	if err != nil {
		dir = c.Engine.Dir
	}
	d.log.Info("kestrel starts", "version", netloop.Version, "go", runtime.Version(),
		"revision", cli.Revision(), "pid", os.Getpid(), "config", cli.OrNone(d.source.File), "data_dir", dir)
	d.announceConfig(c)
}

// announceConfig logs what is to be said about the configuration.
func (d *daemon) announceConfig(c *config.Config) {
	for _, w := range c.Warnings {
		d.log.Warn("configuration: " + w)
	}
	options := config.All(config.QueueOptions())
	for _, key := range c.Idle {
		o, _ := config.Find(options, key)
		d.log.Warn("option has no effect", "option", key, "because", o.Idle)
	}
	d.announceDurability(&c.Engine.Settings)
}

// announceDurability logs what the queues can lose.
func (d *daemon) announceDurability(s *engine.Settings) {
	others := make(map[durability][]string)
	for _, name := range slices.Sorted(maps.Keys(s.Queues)) {
		if how := durabilityOf(s.Queues[name]); how != durabilityOf(s.Default) {
			others[how] = append(others[how], strconv.Quote(name))
		}
	}
	say := func(queues string, how durability) {
		d.log.Info("what can be lost", "queues", queues, "sync_journal", how.sync(), "risk", how.risk())
	}
	for _, how := range slices.SortedFunc(maps.Keys(others), durability.compare) {
		say(cli.ListOf(others[how]), how)
	}
	if len(others) == 0 {
		say("all", durabilityOf(s.Default))
	} else {
		say("all others", durabilityOf(s.Default))
	}
}

// announceRecovery logs what was found in the data directory.
func (d *daemon) announceRecovery() {
	r := d.engine.Recovery()
	if t := r.Journal.Tear; t != nil {
		d.log.Warn(journalcmd.TornWarning,
			"path", t.Path, "offset", t.Offset, "reason", t.Reason,
			"bytes", r.Journal.TornBytes, "saved", strings.Join(r.Journal.Saved, ", "))
	}
	d.log.Info("queues recovered", "queues", r.Queues, "items", r.Items,
		"journal_bytes", r.Journal.Bytes, "segments", r.Journal.Segments, "took", r.Took)
}

const (
	openWarning = "OPEN TO OTHER MACHINES WITHOUT AUTHENTICATION: anyone who reaches this address can put, fetch, flush" +
		" and delete; shutdown, reload and changes of status are accepted from this machine only"
	plainWarning = "OPEN TO OTHER MACHINES WITHOUT TLS: anyone on the network in between can read passwords and items," +
		" and change them"
)

// announceReady logs where clients are served, and within which limits.
func (d *daemon) announceReady() {
	c := d.config
	loops := c.Net.Loops
	if loops == 0 {
		loops = runtime.NumCPU()
	}
	d.log.Info("limits", "loops", loops, "descriptors", d.share.limit,
		"max_connections", d.server.MaxConnections(), "max_open_transactions", c.Net.MaxOpenReads,
		"max_queues", c.Engine.MaxQueues, "memory_limit", config.FormatSize(d.engine.Stats().MemoryLimit),
		"journal_size", config.FormatSize(c.Engine.JournalSize))
	if s := d.server.Status(); s != netloop.Up {
		d.log.Warn("the server starts with a status other than Up: it refuses some requests", "status", s.String(),
			"status_file", cli.OrNone(c.Net.StatusFile))
	}
	for _, p := range d.server.Ports() {
		switch {
		case p.Others && !p.Auth.Asks():
			d.log.Warn(openWarning, "protocol", p.Protocol, "address", p.Name)
		case p.Others && !p.TLS:
			d.log.Warn(plainWarning, "protocol", p.Protocol, "address", p.Name)
		}
		d.log.Info("listening", "protocol", p.Protocol, "address", p.Name, "tls", p.TLS, "auth", cmp.Or(string(p.Auth), string(netloop.AuthNone)))
	}
}

// durability is how well a queue keeps its items.
type durability struct {
	journal bool
	policy  engine.SyncPolicy
}

func durabilityOf(o engine.QueueOptions) durability {
	if !o.KeepJournal {
		return durability{}
	}
	return durability{true, o.Sync}
}

func (d durability) sync() string {
	if !d.journal {
		return "no journal"
	}
	return d.policy.String()
}

func (d durability) risk() string {
	if !d.journal {
		return "every item ends with the process"
	}
	return d.policy.Risk()
}

func (d durability) compare(other durability) int { return cmp.Compare(d.sync(), other.sync()) }
