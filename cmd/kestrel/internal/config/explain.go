package config

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/netloop/ports"
	"github.com/kestrelmq/kestrel/segment"
)

// JournalIsMissing reports whether an error says that a data directory has backlog files and no journal. A repair could
// save nothing there.
func JournalIsMissing(err error) bool {
	var damage *segment.CorruptionError
	return errors.As(err, &damage) && strings.HasPrefix(damage.Reason, "the journal is missing")
}

// Explain turns an error of a start with the configuration c into a failure.
func Explain(err error, c *Config) *cli.Failure {
	dir := c.Engine.Dir
	var damage *segment.CorruptionError
	var op *net.OpError
	var onPath *fs.PathError
	var known *cli.Failure
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, engine.ErrLocked):
		return cli.Failed("the data directory %s is in use by %s: let that one end, or choose another directory with"+
			" --data-dir", dir, cli.Holder(dir))
	case errors.Is(err, segment.ErrUnknownVersion):
		return cli.Failed("the data directory %s is not damaged: a newer release of kestrel wrote it, and this one (%s)"+
			" cannot read it; nothing was changed: start that release again, or go back to a copy of the directory"+
			" from before the upgrade: %s", dir, netloop.Version, err)
	case JournalIsMissing(err):
		return cli.Failed("nothing was changed: %s", err)
	case errors.As(err, &damage):
		return cli.Failed("the journal is damaged, and nothing was changed: %s: 'kestrel journal repair'"+
			" says what is lost and can save the rest; or put a good copy of %s in its place", damage,
			journalIn(dir))
	case errors.As(err, &op) && op.Op == "listen":
		return explainListen(op, c)
	case errors.Is(err, syscall.ENOSPC):
		return cli.Failed("the disk that holds the data directory %s is full: make room, or choose another"+
			" directory with --data-dir: %s", dir, err)
	case errors.As(err, &onPath) && slices.ContainsFunc(unwritable(), func(e error) bool {
		return errors.Is(onPath, e)
	}):
		return cli.Failed("the data directory %s cannot be used: %s: let this user read and write there, or choose"+
			" another directory with --data-dir", dir, onPath)
	}
	return cli.Failed("cannot start with the data directory %s: %s", dir, err)
}

// journalIn is the path of the journal in a data directory.
func journalIn(dataDir string) string {
	dir, err := engine.JournalDir(segment.OS{}, dataDir)
	if err != nil {
		return filepath.Join(dataDir, "journal")
	}
	return dir
}

// unwritable returns the errors of a directory that is the wrong one.
func unwritable() []error {
	return []error{syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ENOTDIR, syscall.EISDIR}
}

// explainListen says why an address cannot be listened on.
func explainListen(op *net.OpError, c *Config) *cli.Failure {
	if socket, ok := op.Addr.(*net.UnixAddr); ok {
		return explainSocket(op, socket.Name)
	}
	addr, instead, why := c.listen, "--listen", op.Err.Error()
	var dns *net.DNSError
	if errors.As(op, &dns) {
		addr, why = dns.Name, dns.Err
	}
	if tcp, ok := op.Addr.(*net.TCPAddr); ok {
		addr = tcp.String()
		if i := slices.Index(c.ports, port(tcp.Port)); i >= 0 {
			instead = "--" + Protocols()[i].Flag
		} else if c.adminPort == port(tcp.Port) {
			instead = "--admin-port"
		} else if len(c.Listeners) > 0 {
			instead = "address of [[listener]]"
		}
	}
	switch {
	case errors.Is(op, syscall.EADDRINUSE):
		return cli.Failed("address %s is in use: stop the program that listens there, or choose another port"+
			" with %s", addr, instead)
	case errors.Is(op, syscall.EACCES):
		return cli.Failed("this user may not listen on %s: choose a port above 1023 with %s", addr, instead)
	}
	return cli.Failed("cannot listen on %s: %s: choose an address of this machine with --listen"+
		" or [[listener]]", addr, why)
}

// explainSocket says why a Unix socket cannot be listened on.
func explainSocket(op *net.OpError, path string) *cli.Failure {
	why, instead := op.Err, "choose another address of [[listener]]"
	var onPath *fs.PathError
	var call *os.SyscallError
	switch {
	case errors.As(why, &onPath):
		why = onPath.Err
	case errors.As(why, &call):
		why = call.Err
	}
	switch {
	case errors.Is(op, syscall.EADDRINUSE):
		return cli.Failed("address %s is in use: stop the program that listens there, or %s", path, instead)
	case errors.Is(op, ports.ErrNoSocket):
		instead = "remove it, or " + instead
	case errors.Is(op, ports.ErrNoGroup):
		instead = "change group or address of [[listener]]"
	case errors.Is(op, fs.ErrNotExist):
		instead = "make its directory, or " + instead
	case errors.Is(op, fs.ErrPermission):
		instead = "let this user read and write there, or " + instead
	}
	return cli.Failed("cannot listen on the socket %s: %s: %s", path, why, instead)
}
