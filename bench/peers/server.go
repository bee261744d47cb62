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
	full      bool  // takes part in all cases of its class, not only in those with 16 connections
	protocol  loadtest.Protocol
	keeps     bool    // a get leaves the item, so that one item is enough for any number of gets
	speed     float64 // gets of a case, as a share of kestrel's, so that filling does not take minutes
	loops     int     // event loops, on as many processors; 0 for the others
	program   string
	version   string // the argument that prints its version
	args      func(o *options, s server, dir string, port int) ([]string, error)
}

// servers returns all there are. Each is given the settings that suit it best on one core, and that
// make its answer to a put mean what the class says. The first of a class is its reference.
//
// memcached has one worker thread, and room for the connections. -R raises the number of requests
// it serves from one connection before it turns to the next: the default of 20 makes two turns of
// each batch of 32, which costs it half as much again: memcached-default shows how. -C leaves out
// the CAS ids that nobody here asks for. It keeps nothing on disk, in whatever class.
//
// Redis keeps no snapshots and never rewrites its log, which would fork in the middle of a window.
// Its queue is a list. redis-no writes its log before it answers and leaves the syncing to the
// kernel, the guarantee that the page-cache class is about; redis-everysec also syncs in the
// background, and redis-always before it answers. redis-memory has no log at all.
//
// beanstalkd writes to its log before it answers, and with -f 0 syncs; -F never does.
//
// nats-server is measured as JetStream, with a stream in memory or in files; the files are synced
// every two minutes, its default, or always.
//
// nsqd keeps messages in memory, or with a memory queue of size 0 writes each to a file before it
// answers. It cannot be in the class sync-always: even if told to sync after every message it
// answers before that sync (ioLoop of go-diskqueue 1.1.0).
func servers() []server {
	mc, redis := loadtest.Memcache, loadtest.RedisList
	list := []server{
		{name: "memcached", class: pageCache, byDefault: true, full: true, protocol: mc, keeps: true,
			speed:   1,
			program: "memcached", version: "--version", args: memcachedArgs},
		{name: "memcached-default", class: pageCache, byDefault: true, full: true, protocol: mc,
			keeps:   true,
			speed:   1,
			program: "memcached", version: "--version", args: memcachedDefaultArgs},
		{name: "memcached-meta", class: pageCache, full: true, protocol: loadtest.MemcacheMeta,
			keeps:   true,
			speed:   1,
			program: "memcached", version: "--version", args: memcachedArgs},
		redisServer("redis-everysec", pageCache, true, redis, "--appendonly", "yes", "--appendfsync",
			"everysec"),
		redisServer("redis-no", pageCache, false, redis, "--appendonly", "yes", "--appendfsync", "no"),
		redisServer("redis-always", syncAlways, true, redis, "--appendonly", "yes", "--appendfsync",
			"always"),
		{name: "memcached-memory", class: memory, byDefault: true, protocol: mc, keeps: true,
			speed:   1,
			program: "memcached", version: "--version", args: memcachedArgs},
		redisServer("redis-memory", memory, true, redis, "--appendonly", "no"),
	}
	for _, class := range []class{pageCache, syncAlways, memory} {
		list = append(list, beanstalkServer(class), natsServer(class))
		if class != syncAlways {
			list = append(list, nsqServer(class))
		}
		list = append(list, kestrelServer(class, 0))
	}
	return append(list, kestrelServer(pageCache, 1), kestrelServer(pageCache, 2))
}

// suffix tells the rows of one program apart.
func (c class) suffix() string { return [...]string{"-memory", "", "-always"}[c] }

// serverNames lists the servers, those that run by default with an asterisk.
func serverNames() string {
	var names []string
	for _, s := range servers() {
		if s.byDefault {
			names = append(names, s.name+"*")
		} else {
			names = append(names, s.name)
		}
	}
	return strings.Join(names, " ")
}

// findServer returns the row of a name.
func findServer(name string) (server, bool) {
	for _, s := range servers() {
		if s.name == name {
			return s, true
		}
	}
	return server{}, false
}

const maxClients = "20000" // connections, of servers that want to know

func memcachedArgs(o *options, s server, dir string, port int) ([]string, error) {
	args, err := memcachedDefaultArgs(o, s, dir, port)
	return append([]string{"-R", "1000", "-C"}, args...), err
}

// memcachedDefaultArgs leave everything about requests as it is.
func memcachedDefaultArgs(_ *options, _ server, _ string, port int) ([]string, error) {
	args := []string{"-m", "1024", "-t", "1", "-c", maxClients, "-U", "0",
		"-l", "127.0.0.1", "-p", strconv.Itoa(port)}
	if os.Geteuid() == 0 {
		args = append(args, "-u", "root") // it refuses to run as root unasked
	}
	return args, nil
}

func redisServer(
	name string, class class, byDefault bool, protocol loadtest.Protocol, log ...string,
) server {
	return server{name: name, class: class, byDefault: byDefault, full: true, protocol: protocol,
		speed:   1,
		program: "redis-server", version: "--version",
		args: func(_ *options, _ server, dir string, port int) ([]string, error) {
			args := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
				"--save", "", "--auto-aof-rewrite-percentage", "0", "--maxclients", maxClients,
				"--daemonize", "no", "--loglevel", "warning"}
			return append(args, log...), nil
		}}
}

func beanstalkServer(class class) server {
	return server{name: "beanstalkd" + class.suffix(), class: class, byDefault: true,
		protocol: loadtest.Beanstalk, speed: 0.25, program: "beanstalkd", version: "-v",
		args: func(_ *options, s server, dir string, port int) ([]string, error) {
			args := []string{"-l", "127.0.0.1", "-p", strconv.Itoa(port)}
			switch s.class {
			case pageCache:
				args = append(args, "-b", dir, "-F")
			case syncAlways:
				args = append(args, "-b", dir, "-f", "0")
			}
			return args, nil
		}}
}

func nsqServer(class class) server {
	return server{name: "nsqd" + class.suffix(), class: class, byDefault: true, protocol: loadtest.NSQ,
		speed: 0.6, program: "nsqd", version: "--version",
		args: func(_ *options, s server, dir string, port int) ([]string, error) {
			inMemory := "0"
			if s.class == memory {
				inMemory = "10000000"
			}
			return []string{"--tcp-address=127.0.0.1:" + strconv.Itoa(port), "--http-address=127.0.0.1:0",
				"--data-path=" + dir, "--mem-queue-size=" + inMemory, "--log-level=error"}, nil
		}}
}

func natsServer(class class) server {
	return server{name: "nats" + class.suffix(), class: class, byDefault: true,
		protocol: loadtest.JetStream, speed: 0.1, program: "nats-server", version: "--version",
		args: func(_ *options, s server, dir string, port int) ([]string, error) {
			config := filepath.Join(dir, "nats.conf")
			text := "max_connections: " + maxClients + "\nping_interval: \"1h\"\njetstream {\n  store_dir: \"" +
				dir + "\"\n"
			if s.class == syncAlways {
				text += "  sync_interval: always\n"
			}
			if err := os.WriteFile(config, []byte(text+"}\n"), 0o644); err != nil {
				return nil, err
			}
			return []string{"--addr", "127.0.0.1", "--port", strconv.Itoa(port), "--config", config}, nil
		}}
}

// kestrelProgram stands in the table for the path that -kestrel gives.
const kestrelProgram = "kestrel"

// kestrelArgs are the default arguments of kestrel, split at spaces. In each of them DIR becomes an
// empty data directory, PORT the port, and FILE the path of the configuration.
const kestrelArgs = "serve --data-dir DIR --listen 127.0.0.1 --memcache-port PORT --thrift-port none" +
	" --text-port none --config FILE"

// kestrelConfig returns the default configuration of a class.
func kestrelConfig(class class) string {
	return [...]string{
		memory:     "[default]\nkeep_journal = false\n",
		pageCache:  "[default]\nsync_journal = \"never\"\n",
		syncAlways: "[default]\nsync_journal = \"always\"\n",
	}[class]
}

func kestrelServer(class class, loops int) server {
	s := server{name: "kestrel" + class.suffix(), class: class, byDefault: true, full: true,
		protocol: loadtest.Memcache, speed: 1, loops: loops, program: kestrelProgram, version: "version",
		args: kestrelCommand}
	if loops > 0 {
		s.name += "-loops" + strconv.Itoa(loops)
	}
	return s
}

func kestrelCommand(o *options, s server, dir string, port int) ([]string, error) {
	config := o.kestrelConfig[s.class]
	if config == "" {
		config = filepath.Join(dir, "kestrel.toml")
		if err := os.WriteFile(config, []byte(kestrelConfig(s.class)), 0o644); err != nil {
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
	if s.loops > 0 {
		args = append(args, "--loops", strconv.Itoa(s.loops))
	}
	return args, nil
}
