package main

import (
	"cmp"
	"context"
	"regexp"
	"runtime"
	"time"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/netloop/admin"
)

// adminCloseTime is how long requests that operators have sent have to be answered at the end.
const adminCloseTime = time.Second

// startAdmin answers operators, if the configuration wants it, from before the engine is opened.
func (d *daemon) startAdmin(asked *requests) error {
	c := d.config
	if c.AdminCount() == 0 {
		return nil
	}
	var filters []*regexp.Regexp
	for _, s := range c.Filters {
		filters = append(filters, regexp.MustCompile(s)) // patternsValue has tried
	}
	c.Engine.Progress = new(engine.Progress)
	var err error
	d.admin, err = admin.New(admin.Options{
		Address: c.AdminAddr(), Auth: c.Net.Auth, TLS: c.Net.TLS, Listeners: c.AdminPorts, Access: d.access, Listen: d.sockets.listen,
		Build: admin.Build{
			Name: "kestrel", Version: netloop.Version, Go: runtime.Version(), Revision: cli.Revision(),
		},
		MaxConnections: d.share.admin,
		Progress:       c.Engine.Progress,
		Reload:         d.reload,
		RequestShutdown: func() {
			asked.requestStop("an operator asked for it")
		},
		Discovery: d.discovery(),
		Hosts:     c.AdminHosts, GetControls: c.AdminGetControls,
		LogLevel: d.level, StatsFilters: filters, Profiling: c.Profiling, Logger: d.log,
	})
	if err != nil {
		return err
	}
	c.Net.Publishers = append(c.Net.Publishers, d.admin)
	d.admin.Start()
	d.announceAdmin()
	return nil
}

// discovery returns what says where the server is announced, or nil if it is not to be.
func (d *daemon) discovery() func() admin.Discovery {
	if d.announcer == nil {
		return nil
	}
	return d.announcer.state
}

// stopAdmin ends it.
func (d *daemon) stopAdmin() {
	if d.admin == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminCloseTime)
	defer cancel()
	if err := d.admin.Close(ctx); err != nil {
		d.log.Warn("admin requests cut off at shutdown", "err", err)
	}
}

const adminWarning = "ADMIN PORT IS OPEN TO OTHER MACHINES: anyone who reaches this address can read" +
	" statistics and queue names; commands that change something are accepted from this machine only"

// announceAdmin logs where operators are answered.
func (d *daemon) announceAdmin() {
	for _, p := range d.admin.Ports() {
		switch {
		case p.Others && !p.Auth.Asks():
			d.log.Warn(adminWarning, "address", p.Name)
		case p.Others && !p.TLS:
			d.log.Warn(plainWarning, "protocol", p.Protocol, "address", p.Name)
		}
		d.log.Info("admin port is open", "address", p.Name, "tls", p.TLS, "auth", cmp.Or(string(p.Auth), string(netloop.AuthNone)),
			"pprof", d.config.Profiling)
	}
}
