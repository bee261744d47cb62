package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/kestrelmq/kestrel/client/discovery"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/netloop/admin"
	"github.com/kestrelmq/kestrel/netloop/ports"
)

// announceTime is how long a change of status waits for ZooKeeper. It goes on without it: an operator
// must be able to quiesce a server that ZooKeeper does not hear.
const announceTime = 5 * time.Second

// announcer announces the server in ZooKeeper with every status. It implements netloop.Publisher.
type announcer struct {
	config config.Discovery
	host   string // that members carry
	log    *slog.Logger
	addrs  func() map[string]net.Addr // where the server listens, by protocol; known once it starts

	running atomic.Pointer[registry] // nil before the first status
}

// registry is what the server needs of a service that tells clients where servers are. *discovery.Announcer is one,
// for ZooKeeper; etcd or Consul would be another.
type registry interface {
	// Set changes the sets that the server is in, and waits until the service has confirmed it, or ctx ends.
	Set(ctx context.Context, want discovery.Sets) error
	// State says how far that is.
	State() discovery.State
	// Close takes the server out of all sets.
	Close(ctx context.Context) error
}

// newAnnouncer returns the announcer that the configuration wants, or nil. It returns a failure if the
// server has no address that others can reach.
func newAnnouncer(c *config.Config, log *slog.Logger, addrs func() map[string]net.Addr) (*announcer, error) {
	if len(c.Discovery.ZooKeeper.Hosts) == 0 {
		return nil, nil
	}
	a := &announcer{config: c.Discovery, log: log, addrs: addrs, host: c.Discovery.Advertise}
	a.config.ZooKeeper.Logger = log
	if a.host != "" {
		return a, nil
	}
	var err error
	if a.host, err = reachableHost(c.ListenAddress()); err != nil && needsHost(c) {
		return nil, cli.Failed("[discovery]: %s; set advertise to the address that clients are to use", err)
	}
	return a, nil
}

// needsHost reports whether some protocol is announced at the address of all: the server speaks it, and nothing else is
// said of it.
func needsHost(c *config.Config) bool {
	on := map[string]bool{
		discovery.Memcache: c.Net.Memcache != "", discovery.Thrift: c.Net.Thrift != "", discovery.Text: c.Net.Text != "",
	}
	for _, l := range c.Net.Listeners {
		on[l.Protocol] = on[l.Protocol] || !ports.IsUnix(l.Port.Address)
	}
	for protocol, said := range advertised(&c.Discovery) {
		if on[protocol] && said.Host == "" && !said.Not {
			return true
		}
	}
	return false
}

// advertised returns what the configuration says of where clients find each protocol. These are the protocols that the
// original announced, and no others: its readers expect nothing else.
func advertised(d *config.Discovery) map[string]config.Advertised {
	return map[string]config.Advertised{discovery.Memcache: d.Memcache, discovery.Thrift: d.Thrift, discovery.Text: d.Text}
}

// reachableHost returns the address that other machines reach a listen address at: itself, or for a
// wildcard that of the first interface with one.
func reachableHost(listen string) (string, error) {
	ip := net.ParseIP(listen)
	switch {
	case ip == nil, !ip.IsUnspecified() && !ip.IsLoopback():
		return listen, nil
	case ip.IsLoopback():
		return "", fmt.Errorf("the server listens on %s, which no other machine reaches", listen)
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("list the network interfaces: %w", err)
	}
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 {
			continue
		}
		for _, addr := range addrs {
			n, ok := addr.(*net.IPNet)
			if !ok || n.IP.IsLoopback() || n.IP.IsLinkLocalUnicast() && i.Flags&net.FlagPointToPoint == 0 {
				continue
			}
			if ip.To4() != nil && n.IP.To4() == nil {
				continue // the server listens on IPv4 alone
			}
			return n.IP.String(), nil
		}
	}
	return "", fmt.Errorf("the server listens on %s, and no network interface has an address for it", listen)
}

// setsOf returns the sets that a server with a status belongs to.
func setsOf(s netloop.Status) discovery.Sets {
	return discovery.Sets{Read: !s.BlocksReads(), Write: s == netloop.Up}
}

// Publish implements netloop.Publisher. It returns nil also when ZooKeeper cannot be reached: the
// announcer goes on trying.
func (a *announcer) Publish(s netloop.Status) error {
	ctx, cancel := context.WithTimeout(context.Background(), announceTime)
	defer cancel()
	running := a.running.Load()
	var err error
	switch {
	case running == nil && s == netloop.Down:
		return nil
	case running == nil: // at the start: nobody waits for ZooKeeper
		started, err := a.start()
		if err != nil {
			return err
		}
		a.running.Store(&started)
		cancel()
		started.Set(ctx, setsOf(s))
		return nil
	case s == netloop.Down:
		err = (*running).Close(ctx)
	default:
		err = (*running).Set(ctx, setsOf(s))
	}
	if err != nil {
		a.log.Warn("ZooKeeper does not know the new status yet", "status", s.String(), "err", err)
	}
	return nil
}

// start begins to announce the server's ports.
func (a *announcer) start() (registry, error) {
	m, err := discovery.NewMember(a.endpoints())
	if err != nil {
		return nil, err
	}
	return discovery.Announce(a.config.ZooKeeper, m)
}

// endpoints returns where clients find the protocols that the server speaks over TCP.
func (a *announcer) endpoints() map[string]discovery.Endpoint {
	endpoints := make(map[string]discovery.Endpoint)
	addrs := a.addrs()
	for protocol, said := range advertised(&a.config) {
		if tcp, ok := addrs[protocol].(*net.TCPAddr); ok && !said.Not {
			endpoints[protocol] = discovery.Endpoint{Host: cmp.Or(said.Host, a.host), Port: cmp.Or(said.Port, tcp.Port)}
		}
	}
	return endpoints
}

// state says what operators see.
func (a *announcer) state() (s admin.Discovery) {
	running := a.running.Load()
	if running == nil {
		return s
	}
	st := (*running).State()
	return admin.Discovery{Read: st.Announced.Read, Write: st.Announced.Write, Err: st.Err}
}
