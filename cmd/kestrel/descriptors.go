package main

import (
	"log/slog"
	"os"
	"syscall"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/netloop/admin"
)

const (
	// momentary is how many descriptors the process uses beside its parts. The runtime's poller keeps two, and the
	// alarm of delayed items one. Writing a configuration or status takes one or two, and so does syncing a directory.
	// A profile or a scrape reads files of the process, and the runtime those of its control group. ZooKeeper takes a
	// connection, and the one that follows it.
	momentary = 15
	// adminPort is what a port of operators takes beside their connections: the port, and a connection that is
	// refused.
	adminPort = 2

	minClients   = 16
	minLingering = 4
	minAdmin     = 4
)

// descriptors says which part of the server may have how many descriptors. They add up to the limit at
// most, and each part keeps to its number.
type descriptors struct {
	limit     int // of open files
	process   int // open at the start, and momentary
	ports     int // event loops, ports, and connections that change hands
	files     int // of the engine
	admin     int // connections of operators
	lingering int // connections that have ended, whose last replies are not read yet
	clients   int // connections of clients
}

// need is a server that descriptors are shared out for.
type need struct {
	opened  int // before anything is
	ports   int
	admin   int // ports of operators
	clients int // max_connections
}

// shareDescriptors shares out the descriptors that a limit allows. Each part has a minimum. Of what is left, the
// clients get half at least. The rest goes to the engine's files first, then to operators and to connections that
// linger, as far as they have use for it. It returns a failure if the limit is below the minimum.
func shareDescriptors(limit int, n need) (descriptors, error) {
	d := descriptors{
		limit: limit, process: n.opened + momentary, ports: n.ports, files: engine.MinFiles,
		lingering: minLingering,
	}
	if n.admin > 0 {
		d.ports, d.admin = d.ports+n.admin*adminPort, minAdmin
	}
	left := limit - (d.process + d.ports + d.files + d.admin + d.lingering)
	if least := min(minClients, n.clients); left < least {
		return d, cli.Failed("the limit of open files is %d, and the server needs %d: %d for the process,"+
			" %d for event loops and ports, %d for files, %d for operators, %d for connections that end and"+
			" %d for clients; raise it with ulimit -n or LimitNOFILE",
			limit, limit-left+least, d.process, d.ports, d.files, d.admin, d.lingering, least)
	}
	more := max(left-n.clients, (left-minClients)/2, 0)
	left -= more
	give := func(part *int, most, share int) {
		n := max(min(most-*part, share), 0)
		*part += n
		more -= n
	}
	give(&d.files, engine.DefaultFiles, 2*more/3)
	if n.admin > 0 {
		give(&d.admin, admin.DefaultMaxConnections, more/3)
	}
	give(&d.lingering, netloop.DefaultMaxLingering, more)
	d.clients = min(n.clients, left+more)
	return d, nil
}

// log says who may have how many.
func (d descriptors) log(log *slog.Logger) {
	log.Info("descriptors", "limit", d.limit, "process", d.process, "loops_and_ports", d.ports,
		"files", d.files, "admin_connections", d.admin, "lingering_connections", d.lingering,
		"client_connections", d.clients)
}

// raiseDescriptors raises the limit of open files as far as this process may, and returns it.
func raiseDescriptors(log *slog.Logger) int {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	if err == nil && limit.Cur < limit.Max {
		raised := syscall.Rlimit{Cur: limit.Max, Max: limit.Max}
		if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised) == nil {
			limit = raised
		}
	}
	if err != nil {
		log.Warn("limit of open files cannot be read: assuming 1024", "err", err)
		return 1024
	}
	return int(min(limit.Cur, 1<<30))
}

// openedDescriptors is how many descriptors the process has, some of them perhaps from its parent.
func openedDescriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 3
	}
	return len(entries) // the one that the directory is read by stands for what is opened meanwhile
}
