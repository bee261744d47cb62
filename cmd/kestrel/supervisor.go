package main

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/activation"
	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

// inherited are the sockets that systemd opened for this process, by socket activation. See
// sd_listen_fds(3).
type inherited struct {
	mu      sync.Mutex
	sockets []net.Listener // that no port has asked for yet
}

// inheritSockets takes over what systemd passed to this process. It returns a failure if that is
// something else than a listening TCP socket on the port of one of addrs.
func inheritSockets(addrs ...string) (*inherited, error) {
	var ports []string
	for _, addr := range addrs {
		ports = append(ports, portOf(addr))
	}
	sockets, err := activation.Listeners() // nil for what is no listening socket
	if err != nil {
		return nil, cli.Failed("sockets from systemd: %s", err)
	}
	for i, ln := range sockets {
		if _, ok := ln.(*net.TCPListener); !ok {
			return nil, cli.Failed("socket %d from systemd is no listening TCP socket; use ListenStream="+
				" with an address and a port in the .socket unit", i)
		}
		if addr := ln.Addr().String(); !slices.Contains(ports, portOf(addr)) {
			return nil, cli.Failed("systemd passed a socket for %s, and the configuration has no such port: change"+
				" the .socket unit or memcache_port, text_port, thrift_port, admin_port or [[listener]]", addr)
		}
	}
	return &inherited{sockets: sockets}, nil
}

// portOf returns the port of an address.
func portOf(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// listen opens addr, or returns the socket from systemd that has its port. It may replace net.Listen
// for TCP.
func (in *inherited) listen(addr string) (net.Listener, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i, ln := range in.sockets {
		if portOf(ln.Addr().String()) == portOf(addr) {
			in.sockets = append(in.sockets[:i:i], in.sockets[i+1:]...)
			return ln, nil
		}
	}
	return net.Listen("tcp", addr)
}

// notify sends states to systemd, if it runs the process and wants them. See sd_notify(3).
func notify(log *slog.Logger, states ...string) {
	if _, err := systemd.SdNotify(false, strings.Join(states, "\n")); err != nil {
		log.Warn("systemd was not notified", "states", strings.Join(states, " "), "err", err)
	}
}

// notifyReloading says that the configuration is being reloaded; READY=1 ends that.
func notifyReloading(log *slog.Logger) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		log.Warn("systemd was not notified", "err", err)
		return
	}
	notify(log, systemd.SdNotifyReloading, fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
}
