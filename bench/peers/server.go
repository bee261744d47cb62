package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kestrelmq/kestrel/loadtest"
)

// server is a row of the table of servers.
type server struct {
	name      string
	class     class // the cases it takes part in
	byDefault bool  // runs unless -servers says otherwise
	protocol  loadtest.Protocol
	keeps     bool // a get leaves the item, so that one item is enough for any number of gets
	program   string
	version   string // the argument that prints its version
	args      func(o *options, s server, dir string, port int) ([]string, error)
}

// servers are all there are. Each is given the settings that suit it best on one core:
//
// memcached has one worker thread, and room for the connections. -R raises the number of requests
// it serves from one connection before it turns to the next: the default of 20 makes two turns of
// each batch of 32, which costs it half as much again. -C leaves out the CAS ids that nobody here
// asks for.
//
// Redis keeps no snapshots and never rewrites its log, which would fork in the middle of a window.
// Its queue is a list. redis-no writes its log before it answers and leaves the syncing to the
// kernel, the guarantee that the page-cache class is about; redis-everysec also syncs in the
// background, and redis-always before it answers. redis-memory has no log at all.
var servers = []server{
	{"memcached", pageCache, true, loadtest.Memcache, true, "memcached", "--version", memcachedArgs},
	{"memcached-meta", pageCache, false, loadtest.MemcacheMeta, true, "memcached", "--version",
		memcachedArgs},
	{"redis-no", pageCache, true, loadtest.RedisList, false, "redis-server", "--version",
		redisArgs("--appendonly", "yes", "--appendfsync", "no")},
	{"redis-everysec", pageCache, false, loadtest.RedisList, false, "redis-server", "--version",
		redisArgs("--appendonly", "yes", "--appendfsync", "everysec")},
	{"redis-memory", pageCache, false, loadtest.RedisList, false, "redis-server", "--version",
		redisArgs("--appendonly", "no")},
	{"redis-always", syncAlways, true, loadtest.RedisList, false, "redis-server", "--version",
		redisArgs("--appendonly", "yes", "--appendfsync", "always")},
	{"kestrel", pageCache, true, loadtest.Memcache, false, kestrelProgram, "version", kestrelCommand},
	{"kestrel-always", syncAlways, true, loadtest.Memcache, false, kestrelProgram, "version",
		kestrelCommand},
}

// serverNames lists the servers, those that run by default with an asterisk.
func serverNames() string {
	var names []string
	for _, s := range servers {
		if s.byDefault {
			names = append(names, s.name+"*")
		} else {
			names = append(names, s.name)
		}
	}
	return strings.Join(names, " ")
}

func memcachedArgs(_ *options, _ server, _ string, port int) ([]string, error) {
	args := []string{"-m", "1024", "-t", "1", "-c", "4096", "-R", "1000", "-C", "-U", "0",
		"-l", "127.0.0.1", "-p", strconv.Itoa(port)}
	if os.Geteuid() == 0 {
		args = append(args, "-u", "root") // it refuses to run as root unasked
	}
	return args, nil
}

func redisArgs(log ...string) func(*options, server, string, int) ([]string, error) {
	return func(_ *options, _ server, dir string, port int) ([]string, error) {
		args := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
			"--save", "", "--auto-aof-rewrite-percentage", "0", "--maxclients", "4096",
			"--daemonize", "no", "--loglevel", "warning"}
		return append(args, log...), nil
	}
}

// kestrelProgram stands in the table for the path that -kestrel gives.
const kestrelProgram = "kestrel"

// kestrelArgs are the default arguments of kestrel, split at spaces. In each of them DIR becomes an
// empty data directory, PORT the port, and FILE the path of the configuration.
const kestrelArgs = "serve --data-dir DIR --listen 127.0.0.1 --memcache-port PORT --config FILE"

// kestrelConfig is the default configuration of each class.
var kestrelConfig = map[class]string{
	pageCache:  "[default]\nsync_journal = \"never\"\n",
	syncAlways: "[default]\nsync_journal = \"always\"\n",
}

func kestrelCommand(o *options, s server, dir string, port int) ([]string, error) {
	config := o.kestrelConfig[s.class]
	if config == "" {
		config = filepath.Join(dir, "kestrel.toml")
		if err := os.WriteFile(config, []byte(kestrelConfig[s.class]), 0o644); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		return nil, err
	}
	replace := strings.NewReplacer("DIR", data, "PORT", strconv.Itoa(port), "FILE", config)
	args := strings.Fields(o.kestrelArgs)
	for i := range args {
		args[i] = replace.Replace(args[i])
	}
	return args, nil
}
