package loadcmd

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
	"github.com/kestrelmq/kestrel/loadtest/scenario"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// spawnOpenReads is how many open reads a connection may have there, as in the original's sample configuration. Fetches
// of several items, and consumers that forget some, need more than one.
const spawnOpenReads = "100"

// spawnServer starts a server of this program in a temporary directory, and has e measure it.
func (p *loadFlags) spawnServer(ctx context.Context, e *scenario.Env) (*spawn.Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ports := make(map[string]string)
	args := []string{"serve", "--listen", "127.0.0.1", "--log-level", "warn",
		"--max-open-transactions", spawnOpenReads}
	for _, proto := range config.Protocols() {
		ports[proto.Name] = "none"
		if proto.Name == "memcache" || proto.Name == e.Protocol.String() {
			n, err := spawn.FreePort()
			if err != nil {
				return nil, err
			}
			ports[proto.Name] = strconv.Itoa(n)
		}
		args = append(args, "--"+proto.Flag, ports[proto.Name])
	}
	args = append(args, strings.Fields(p.spawnArgs)...)
	e.Server = net.JoinHostPort("127.0.0.1", ports[e.Protocol.String()])
	e.Control = net.JoinHostPort("127.0.0.1", ports["memcache"])
	runtime.LockOSThread() // the server lives as long as this thread
	spawned, err := spawn.Start(ctx, spawn.Options{
		Name:    "serve",
		Program: program,
		Args: func(dir string) ([]string, error) {
			return append(args, "--data-dir", filepath.Join(dir, "data")), nil
		},
		Dir:   p.spawnDir,
		Ready: func() error { return answers(e.Server) },
	})
	if err != nil {
		return nil, err
	}
	e.PID = spawned.PID
	e.Figures.Server.Spawned = true
	e.Figures.Server.Command = fmt.Sprintf("kestrel %s --data-dir DIR", strings.Join(args, " "))
	return spawned, nil
}

// answers returns nil if somebody listens at an address.
func answers(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}
