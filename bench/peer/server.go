package peer

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kestrelmq/kestrel/loadtest"
)

// Class is what a server must have done with a put before it answers.
type Class uint8

const (
	Memory     Class = iota // nothing: a put survives nothing
	PageCache               // at most written to a file: survives the process, not the machine
	SyncAlways              // synced to the disk
	NumClasses              // how many there are
)

func (c Class) String() string { return [...]string{"memory", "page-cache", "sync-always"}[c] }

// Server is a row of the table of servers.
type Server struct {
	Name     string
	Class    Class
	Protocol loadtest.Protocol
	Loops    int    // event loops that kestrel is to have; 0: as many as it likes, and for the others
	Program  string // a name to be looked up, or the path that Setup.Locate has put there

	version   string // the argument that prints its version
	eventLoop string // of kestrel; empty: its default
	args      func(o *Setup, s Server, dir string, port int) ([]string, error)
}

// Setup says where servers are, and how kestrel is started. It is not changed while in use.
type Setup struct {
	Dir     string // parent of the servers' directories, on the disk that they write to
	Install string // directory of servers built from source; empty: none

	Kestrel       string           // path of the binary
	Before        string           // path of another build, which kestrel-before runs; empty: there is none
	KestrelArgs   string           // empty: DefaultArgs
	KestrelConfig map[Class]string // paths of configuration files; empty writes DefaultConfig

	// What DefaultConfig is written with: lines about the server, before it, and about all queues,
	// behind it.
	KestrelServer, KestrelQueues string
}

// Queue is the queue that everything is put to, or how the names of several begin. JetStream's
// stream and its subject are called so as well.
const Queue = "bench"

// Locate returns s with the path of its program, and an error if there is none.
func (o *Setup) Locate(s Server) (Server, error) {
	switch {
	case s.Program == kestrelProgram:
		s.Program = o.Kestrel
	case s.Program == beforeProgram:
		s.Program = o.Before
	case o.Install != "":
		if built, err := exec.LookPath(filepath.Join(o.Install, s.Program)); err == nil {
			s.Program = built
		}
	}
	_, err := exec.LookPath(s.Program)
	return s, err
}

// All returns all there are. Each is given the settings that suit it best on one core, and that
// make its answer to a put mean what the class says. The first of a class is its reference.
//
// memcached has one worker thread, and room for the connections. -R raises the number of requests it serves from one
// connection before it turns to the next. The default of 20 makes two turns of each batch of 32, which costs it half as
// much again; memcached-default shows how. -C leaves out the CAS ids that nobody here asks for. It keeps nothing on
// disk, in whatever class.
//
// Redis keeps no snapshots and never rewrites its log, which would fork in the middle of a window. Its queue is a
// list. redis-no writes its log before it answers, and leaves the syncing to the kernel: as the page-cache class has
// it. redis-everysec also syncs in the background. redis-always syncs before it answers. redis-memory has no log at
// all.
//
// beanstalkd writes to its log before it answers, and with -f 0 syncs; -F never does.
//
// nats-server is measured as JetStream, with a stream in memory or in files; the files are synced
// every two minutes, its default, or always.
//
// nsqd keeps messages in memory, or with a memory queue of size 0 writes each to a file before it
// answers. It cannot be in the class sync-always: even if set to sync after every message it
// answers before that sync (ioLoop of go-diskqueue 1.1.0).
//
// kestrel-epoll waits with kestrel's own poller instead of gnet's. kestrel-before and kestrel-always-before are another
// build, so that two builds take turns.
func All() []Server {
	const mc = loadtest.Memcache
	list := []Server{
		{Name: "memcached", Class: PageCache, Protocol: mc,
			Program: "memcached", version: "--version", args: memcachedArgs},
		{Name: "memcached-default", Class: PageCache, Protocol: mc,
			Program: "memcached", version: "--version", args: memcachedDefaultArgs},
		{Name: "memcached-meta", Class: PageCache, Protocol: loadtest.MemcacheMeta,
			Program: "memcached", version: "--version", args: memcachedArgs},
		redisServer("redis-everysec", PageCache, "--appendonly", "yes", "--appendfsync",
			"everysec"),
		redisServer("redis-no", PageCache, "--appendonly", "yes", "--appendfsync", "no"),
		redisServer("redis-always", SyncAlways, "--appendonly", "yes", "--appendfsync",
			"always"),
		{Name: "memcached-memory", Class: Memory, Protocol: mc,
			Program: "memcached", version: "--version", args: memcachedArgs},
		redisServer("redis-memory", Memory, "--appendonly", "no"),
	}
	for _, class := range []Class{PageCache, SyncAlways, Memory} {
		list = append(list, beanstalkServer(class), natsServer(class))
		if class != SyncAlways {
			list = append(list, nsqServer(class))
		}
		list = append(list, kestrelServer(class, 0))
	}
	epoll := kestrelServer(PageCache, 0)
	epoll.Name, epoll.eventLoop = "kestrel-epoll", "epoll"
	list = append(list, kestrelServer(PageCache, 1), kestrelServer(PageCache, 2), epoll)
	for _, class := range []Class{PageCache, SyncAlways} {
		before := kestrelServer(class, 0)
		before.Name, before.Program = before.Name+"-before", beforeProgram
		list = append(list, before)
	}
	return list
}

// suffix distinguishes the rows of one program.
func (c Class) suffix() string { return [...]string{"-memory", "", "-always"}[c] }

// Find returns the row of a name.
func Find(name string) (Server, bool) {
	for _, s := range All() {
		if s.Name == name {
			return s, true
		}
	}
	return Server{}, false
}

const maxClients = "20000" // connections, of servers that want to know

func memcachedArgs(o *Setup, s Server, dir string, port int) ([]string, error) {
	args, err := memcachedDefaultArgs(o, s, dir, port)
	return append([]string{"-R", "1000", "-C"}, args...), err
}

// memcachedDefaultArgs leave everything about requests as it is.
func memcachedDefaultArgs(_ *Setup, _ Server, _ string, port int) ([]string, error) {
	args := []string{"-m", "1024", "-t", "1", "-c", maxClients, "-U", "0",
		"-l", "127.0.0.1", "-p", strconv.Itoa(port)}
	if os.Geteuid() == 0 {
		args = append(args, "-u", "root") // it refuses to run as root unasked
	}
	return args, nil
}

func redisServer(name string, class Class, log ...string) Server {
	return Server{Name: name, Class: class, Protocol: loadtest.RedisList,
		Program: "redis-server", version: "--version",
		args: func(_ *Setup, _ Server, dir string, port int) ([]string, error) {
			args := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
				"--save", "", "--auto-aof-rewrite-percentage", "0", "--maxclients", maxClients,
				"--daemonize", "no", "--loglevel", "warning"}
			return append(args, log...), nil
		}}
}

func beanstalkServer(class Class) Server {
	return Server{Name: "beanstalkd" + class.suffix(), Class: class,
		Protocol: loadtest.Beanstalk, Program: "beanstalkd", version: "-v",
		args: func(_ *Setup, s Server, dir string, port int) ([]string, error) {
			args := []string{"-l", "127.0.0.1", "-p", strconv.Itoa(port)}
			switch s.Class {
			case PageCache:
				args = append(args, "-b", dir, "-F")
			case SyncAlways:
				args = append(args, "-b", dir, "-f", "0")
			}
			return args, nil
		}}
}

func nsqServer(class Class) Server {
	return Server{Name: "nsqd" + class.suffix(), Class: class, Protocol: loadtest.NSQ,
		Program: "nsqd", version: "--version",
		args: func(_ *Setup, s Server, dir string, port int) ([]string, error) {
			inMemory := "0"
			if s.Class == Memory {
				inMemory = "10000000"
			}
			return []string{"--tcp-address=127.0.0.1:" + strconv.Itoa(port), "--http-address=127.0.0.1:0",
				"--data-path=" + dir, "--mem-queue-size=" + inMemory, "--log-level=error"}, nil
		}}
}

func natsServer(class Class) Server {
	return Server{Name: "nats" + class.suffix(), Class: class,
		Protocol: loadtest.JetStream, Program: "nats-server", version: "--version",
		args: func(_ *Setup, s Server, dir string, port int) ([]string, error) {
			config := filepath.Join(dir, "nats.conf")
			text := "max_connections: " + maxClients + "\nping_interval: \"1h\"\njetstream {\n" +
				"  store_dir: \"" + dir + "\"\n"
			if s.Class == SyncAlways {
				text += "  sync_interval: always\n"
			}
			if err := os.WriteFile(config, []byte(text+"}\n"), 0o644); err != nil {
				return nil, err
			}
			return []string{"--addr", "127.0.0.1", "--port", strconv.Itoa(port), "--config", config}, nil
		}}
}

// kestrelProgram and beforeProgram stand in the table for the paths of kestrel and of its other build.
const (
	kestrelProgram = "kestrel"
	beforeProgram  = "kestrel-before"
)

// DefaultArgs are the default arguments of kestrel, split at spaces. In each of them DIR becomes an
// empty data directory, PORT the port, and FILE the path of the configuration.
const DefaultArgs = "serve --data-dir DIR --listen 127.0.0.1 --memcache-port PORT" +
	" --thrift-port none --text-port none --config FILE"

// DefaultConfig returns the default configuration of a class.
func DefaultConfig(class Class) string {
	return [...]string{
		Memory:     "[default]\nkeep_journal = false\n",
		PageCache:  "[default]\nsync_journal = \"never\"\n",
		SyncAlways: "[default]\nsync_journal = \"always\"\n",
	}[class]
}

func kestrelServer(class Class, loops int) Server {
	s := Server{Name: "kestrel" + class.suffix(), Class: class,
		Protocol: loadtest.Memcache, Loops: loops, Program: kestrelProgram, version: "version",
		args: kestrelCommand}
	if loops > 0 {
		s.Name += "-loops" + strconv.Itoa(loops)
	}
	return s
}

func kestrelCommand(o *Setup, s Server, dir string, port int) ([]string, error) {
	config := o.KestrelConfig[s.Class]
	if config == "" {
		config = filepath.Join(dir, "kestrel.toml")
		text := o.KestrelServer + DefaultConfig(s.Class) + o.KestrelQueues
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		return nil, err
	}
	replace := strings.NewReplacer("DIR", data, "PORT", strconv.Itoa(port), "FILE", config)
	args := strings.Fields(cmp.Or(o.KestrelArgs, DefaultArgs))
	for i := range args {
		args[i] = replace.Replace(args[i])
	}
	if s.Loops > 0 {
		args = append(args, "--loops", strconv.Itoa(s.Loops))
	}
	if s.eventLoop != "" {
		args = append(args, "--event-loop", s.eventLoop)
	}
	return args, nil
}
