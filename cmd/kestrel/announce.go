package main

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
)

// announceStart logs what is about to be started.
func (d *daemon) announceStart() {
	c := d.config
	dir, err := filepath.Abs(c.engine.Dir)
	if err != nil {
		dir = c.engine.Dir
	}
	d.log.Info("kestrel starts", "version", netloop.Version, "go", runtime.Version(),
		"revision", revision(), "pid", os.Getpid(), "config", orNone(d.source.file), "data_dir", dir)
	d.announceConfig(c)
}

// announceConfig logs what is to be said about the configuration.
func (d *daemon) announceConfig(c *config) {
	for _, w := range c.warnings {
		d.log.Warn("configuration: " + w)
	}
	options := all(queueOptions())
	for _, key := range c.idle {
		o, _ := find(options, key)
		d.log.Warn("option has no effect", "option", key, "because", o.idle)
	}
	d.announceDurability(&c.engine.Settings)
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
		say(listOf(others[how]), how)
	}
	if len(others) == 0 {
		say("all", durabilityOf(s.Default))
	} else {
		say("all others", durabilityOf(s.Default))
	}
}

const tornWarning = "the journal ended in a torn write, as a power cut leaves it: cut off, and kept"

// announceRecovery logs what was found in the data directory.
func (d *daemon) announceRecovery() {
	r := d.engine.Recovery()
	if t := r.Journal.Tear; t != nil {
		d.log.Warn(tornWarning,
			"path", t.Path, "offset", t.Offset, "reason", t.Reason,
			"bytes", r.Journal.TornBytes, "saved", strings.Join(r.Journal.Saved, ", "))
	}
	d.log.Info("queues recovered", "queues", r.Queues, "items", r.Items,
		"journal_bytes", r.Journal.Bytes, "segments", r.Journal.Segments, "took", r.Took)
}

const openWarning = "OPEN TO OTHER MACHINES, AND THERE IS NO AUTHENTICATION YET: whoever reaches" +
	" this address can put, fetch, flush and delete; shutdown, reload and changes of status are" +
	" accepted from this machine only"

// announceReady logs where clients are served, and within which limits.
func (d *daemon) announceReady() {
	c := d.config
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		d.log.Warn("read the limit of descriptors", "err", err)
	}
	loops := c.net.Loops
	if loops == 0 {
		loops = runtime.NumCPU()
	}
	d.log.Info("limits", "loops", loops, "descriptors", limit.Cur,
		"max_connections", d.server.MaxConnections(), "max_open_transactions", c.net.MaxOpenReads,
		"max_queues", c.engine.MaxQueues, "memory_limit", formatSize(d.engine.Stats().MemoryLimit),
		"journal_size", formatSize(c.engine.JournalSize))
	if s := d.server.Status(); s != netloop.Up {
		d.log.Warn("the server does not do everything that it is asked for", "status", s.String(),
			"status_file", orNone(c.net.StatusFile))
	}
	for _, p := range protocols() {
		addr, ok := p.addr(d.server).(*net.TCPAddr)
		if !ok {
			continue
		}
		if !addr.IP.IsLoopback() {
			d.log.Warn(openWarning, "protocol", p.name, "address", addr.String())
		}
		d.log.Info("listening", "protocol", p.name, "address", addr.String())
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

// maxListed is how many names a line of the log holds.
const maxListed = 20

// listOf is names in a line, the first of them if there are many.
func listOf(names []string) string {
	if more := len(names) - maxListed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), more)
	}
	return strings.Join(names, ", ")
}

func orNone(s string) string { return cmp.Or(s, "none") }
