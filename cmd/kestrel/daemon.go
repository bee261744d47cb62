package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/journalcmd"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/netloop/admin"
	"github.com/kestrelmq/kestrel/netloop/certs"
)

// daemon is a running server.
type daemon struct {
	// Immutable.
	source       config.Source
	config       *config.Config // that it was started with
	log          *slog.Logger
	level        *slog.LevelVar
	access       *access.Checker // nil without users
	certificates map[string]*certs.Source
	engine       *engine.Engine
	server       *netloop.Server
	admin        *admin.Server // nil without an admin port
	share        descriptors

	sockets   *inherited // from systemd
	announcer *announcer // nil without [discovery]

	counted   atomic.Pointer[engine.Engine] // engine, for any goroutine
	uncounted atomic.Int64                  // bytes of checks that began before there was one
	reloading sync.Mutex                    // held while the configuration is read again and applied
}

// serve runs a server until it is asked to stop; it logs to stderr. It returns a *configError, and
// has done nothing, if the configuration is wrong, and a *failure if the server cannot start, or
// not stop cleanly.
func serve(s config.Source, stderr io.Writer) error {
	c, err := s.Load()
	if err != nil {
		return err
	}
	boundGarbage()
	d := &daemon{source: s, config: c, level: new(slog.LevelVar)}
	d.level.Set(c.LogLevel)
	d.log = newLogger(stderr, c.LogFormat, d.level)
	done := make(chan struct{})
	defer close(done)
	asked := watchSignals(d.log, done)
	if err := d.start(asked); err != nil {
		return config.Explain(err, c)
	}
	go returnGarbage(done)
	watching, stopWatching := context.WithCancel(context.Background())
	defer stopWatching()
	d.watchCertificates(watching)
	for {
		select {
		case <-asked.reload:
			d.reload() // logs what is wrong
		case <-asked.stop:
			return d.stop(asked.reason)
		}
	}
}

// start brings the queues back and opens the ports.
func (d *daemon) start(asked *requests) (err error) {
	c := d.config
	d.announceStart()
	c.Engine.Logger, c.Net.Logger = d.log, d.log
	if err := d.secure(); err != nil {
		return err
	}
	if err := journalcmd.CheckImported(c.Engine.Dir); err != nil {
		return err
	}
	d.share, err = shareDescriptors(raiseDescriptors(d.log), need{
		opened: openedDescriptors(), ports: c.Net.Descriptors(), admin: c.AdminCount(),
		clients: c.Net.MaxConnections,
	})
	if err != nil {
		return err
	}
	d.share.log(d.log)
	c.Engine.Files = d.share.files
	if d.sockets, err = inheritSockets(c.Addresses()...); err != nil {
		return err
	}
	if d.announcer, err = newAnnouncer(c, d.log, d.addrs); err != nil {
		return err
	}
	if c.Users != nil {
		d.access = access.NewChecker(c.Users, access.Options{Parallel: checksAtOnce(processors()), Account: d.account})
	}
	notify(d.log, "STATUS=reading the journal")
	if err := d.startAdmin(asked); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			d.stopAdmin()
		}
	}()
	if d.engine, err = engine.Open(c.Engine); err != nil {
		return err
	}
	d.counted.Store(d.engine)
	d.announceRecovery()
	if d.announcer != nil {
		c.Net.Publishers = append(c.Net.Publishers, d.announcer)
	}
	c.Net.Engine, c.Net.Access = d.engine, d.access
	c.Net.Reload = d.reload
	c.Net.RequestShutdown = func() { asked.requestStop("a client asked for it") }
	opts := c.Net // the configuration keeps what was asked for
	opts.Listen = d.sockets.listen
	opts.MaxConnections, opts.MaxLingering = d.share.clients, d.share.lingering
	if d.server, err = netloop.New(opts); err == nil {
		err = d.server.Start()
	}
	if err != nil {
		d.engine.Close() // nothing was put
		return err
	}
	if d.admin != nil {
		d.admin.Attach(d.server)
	}
	d.announceReady()
	notify(d.log, systemd.SdNotifyReady, "STATUS=serving")
	return nil
}

// processors is how many the process may use: those of the machine, or of its control group. The server raises
// GOMAXPROCS when it starts, so this is asked before.
func processors() int { return min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) }

// checksAtOnce is how many passwords are checked at once with so many processors: half of them are left to clients who
// are known.
func checksAtOnce(processors int) int { return max(processors/2, 1) }

// account counts memory of the checks of passwords, once there is an engine to count it.
func (d *daemon) account(bytes int64) {
	e := d.counted.Load()
	if e == nil || bytes < 0 && d.uncounted.Load() > 0 {
		d.uncounted.Add(bytes)
		return
	}
	e.Account(bytes)
}

// addrs returns where the server listens, by protocol.
func (d *daemon) addrs() map[string]net.Addr {
	addrs := make(map[string]net.Addr)
	for _, p := range config.Protocols() {
		if addr := p.Addr(d.server); addr != nil {
			addrs[p.Name] = addr
		}
	}
	return addrs
}

// reload reads the configuration again and applies what can be applied to a running server. That is users, rights and
// quotas, the level of the log, and everything about queues and aliases. If it is wrong nothing is changed. If the disk
// fails, only queues may keep their old options.
func (d *daemon) reload() error {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	notifyReloading(d.log)
	defer notify(d.log, systemd.SdNotifyReady)
	c, err := d.source.Load()
	if err != nil {
		d.log.Error("configuration not reloaded: nothing is changed", "err", err)
		return err
	}
	if err := d.reloadCertificates(); err != nil {
		d.log.Error("configuration not reloaded: nothing is changed", "err", err)
		return err
	}
	d.level.Set(c.LogLevel)
	d.server.SetTraceSessions(c.Net.TraceSessions)
	if d.access != nil && c.Users != nil {
		d.access.SetUsers(c.Users)
		d.server.Reidentify()
		if d.admin != nil {
			d.admin.Reidentify()
		}
	}
	d.server.SetAccounts(c.Net.Accounts)
	d.server.Readmit(c.Net.Listeners)
	if d.admin != nil {
		d.admin.Readmit(c.AdminPorts)
	}
	if err := d.engine.Reload(c.Engine.Settings); err != nil { // last: who is locked out does not wait for the disk
		d.log.Error("configuration reloaded in part: reload again when the disk works", "err", err)
		return err
	}
	d.log.Info("configuration reloaded", "config", cli.OrNone(d.source.File),
		"queues", len(c.Engine.Settings.Queues), "aliases", len(c.Engine.Settings.Aliases))
	for _, change := range d.config.Restarts(c) {
		d.log.Warn("option needs a restart to change", "option", change[0], "running", change[1], "file", change[2])
	}
	d.announceConfig(c)
	return nil
}

// stop ends the server: first its connections, then, when nothing can be put any more, the queues.
func (d *daemon) stop(reason string) error {
	defer d.stopAdmin()
	started := time.Now()
	notify(d.log, systemd.SdNotifyStopping, "STATUS=stopping: "+reason)
	d.log.Info("stopping", "reason", reason)
	if err := d.server.Shutdown(context.Background()); err != nil {
		d.log.Error("connections did not end cleanly: closing the queues anyway", "err", err)
	}
	if err := d.engine.Close(); err != nil {
		return cli.Failed("the journal could not be synced at the end: %s; a power cut may still lose"+
			" the latest changes: look at the disk", err)
	}
	d.log.Info("stopped: everything is synced", "took", time.Since(started))
	return nil
}
