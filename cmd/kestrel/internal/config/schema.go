package config

import (
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/netloop"
)

// Option is one key of the configuration, kept somewhere in a T.
type Option[T any] struct {
	Key  string
	Flag string // of `kestrel serve`, which overrides the key; "" for none
	Help string // one line
	At   func(*T) Value
	Was  []string // what the original called it
	Live bool     // a reload applies a change
	Idle string   // why it has no effect; "" if it has one
}

// Group is some options under a title.
type Group[T any] struct {
	Title   string
	Options []Option[T]
}

// All returns the options of all groups.
func All[T any](groups []Group[T]) []Option[T] {
	var list []Option[T]
	for _, g := range groups {
		list = append(list, g.Options...)
	}
	return list
}

// ServerOptions returns the keys at the top of the file.
func ServerOptions() []Group[Config] {
	return []Group[Config]{
		{"Listening", listenOptions()},
		{"Data", dataOptions()},
		{"Clients", clientOptions()},
		{"Status", statusOptions()},
		{"Administration", adminOptions()},
		{"Process", processOptions()},
	}
}

func listenOptions() []Option[Config] {
	list := []Option[Config]{{
		Key: "listen_address", Flag: "listen", Was: []string{"listenAddress", "host"},
		Help: "address of every protocol; there is no authentication yet",
		At:   func(c *Config) Value { return hostValue{&c.listen} },
	}}
	for i, p := range Protocols() {
		list = append(list, Option[Config]{
			Key: p.key, Flag: p.Flag, Was: p.was,
			Help: "port of the " + p.Name + ` protocol; "auto" is a free one, "none" or 0 is off`,
			At: func(c *Config) Value {
				at := &c.ports[i]
				return optional(at, portOff, automatic(at, portAuto, portValue{at}))
			},
		})
	}
	return append(list, Option[Config]{
		Key: "connection_backlog", Was: []string{"connectionBacklog"},
		Help: `connections not yet accepted; "none" is up to the operating system`,
		At: func(c *Config) Value {
			return optional(&c.Net.Backlog, 0, countValue[int]{&c.Net.Backlog, 0, math.MaxUint16})
		},
	})
}

func dataOptions() []Option[Config] {
	return []Option[Config]{{
		Key: "data_dir", Flag: "data-dir", Was: []string{"queuePath", "queue_path"},
		Help: "where everything is kept; made if missing; for one server at a time",
		At:   func(c *Config) Value { return textValue{&c.Engine.Dir, "path", "/var/lib/kestrel"} },
	}, {
		Key:  "journal_size",
		Help: "how large the journal may grow, but for open reads and small queues",
		At:   func(c *Config) Value { return sizeValue{&c.Engine.JournalSize, 1 << 20} },
	}, {
		Key:  "segment_size",
		Help: `of one file of the journal; "auto" is journal_size/8, 32MiB at most`,
		At: func(c *Config) Value {
			return automatic(&c.Engine.SegmentSize, 0, sizeValue{&c.Engine.SegmentSize, 64 << 10})
		},
	}, {
		Key:  "memory_limit",
		Help: `near it queues spill, past it puts fail; "auto": a quarter of memory`,
		At: func(c *Config) Value {
			return automatic(&c.Engine.MemoryLimit, 0, sizeValue{&c.Engine.MemoryLimit, 1 << 20})
		},
	}, {
		Key:  "disk_reserve",
		Help: `of disk that puts leave free; "auto" is 5 %, 1GiB at least, 10 % at most`,
		At: func(c *Config) Value {
			return automatic(&c.Engine.DiskReserve, 0, sizeValue{&c.Engine.DiskReserve, 1})
		},
	}, {
		Key:  "backlog_compression",
		Help: "of what is spilled to disk; s2 is fast, zstd takes less room",
		At:   func(c *Config) Value { return codecValue{&c.Engine.BacklogCompression} },
	}, {
		Key:  "backlog_cache",
		Help: "keeps what is spilled in the page cache; else it goes past it",
		At:   func(c *Config) Value { return boolValue{&c.Engine.BacklogCached} },
	}, {
		Key: "backlog_read", Flag: "backlog-read",
		Help: "of what went past the page cache: through maps, or past it again",
		At:   func(c *Config) Value { return readValue{&c.Engine.BacklogRead} },
	}, {
		Key:  "max_queues",
		Help: "past it, no queue is created",
		At:   func(c *Config) Value { return countValue[int]{&c.Engine.MaxQueues, 1, math.MaxInt32} },
	}, {
		Key:  "max_fanout_children",
		Help: "of one queue; past it, no child is created",
		At: func(c *Config) Value {
			return countValue[int]{&c.Engine.MaxFanoutChildren, 1, math.MaxInt32}
		},
	}, {
		Key:  "expiration_timer_frequency",
		Was:  []string{"expirationTimerFrequency", "expiration_timer_frequency_seconds"},
		Help: "how often to remove expired items and queues that nobody asks for",
		At: func(c *Config) Value {
			return optionalDuration(&c.Engine.SweepInterval)
		},
	}}
}

func clientOptions() []Option[Config] {
	return []Option[Config]{{
		Key: "client_timeout", Was: []string{"clientTimeout", "timeout"},
		Help: "closes connections that ask for nothing for this long",
		At: func(c *Config) Value {
			return optionalDuration(&c.Net.ClientTimeout)
		},
	}, {
		Key: "max_open_transactions", Flag: "max-open-transactions",
		Was:  []string{"maxOpenTransactions"},
		Help: "open reads that one connection may have on one queue",
		At: func(c *Config) Value {
			return countValue[int]{&c.Net.MaxOpenReads, 1, math.MaxInt32}
		},
	}, {
		Key:  "max_connections",
		Help: "one too many is told so and closed; file descriptors bound it too",
		At: func(c *Config) Value {
			return countValue[int]{&c.Net.MaxConnections, 1, netloop.DefaultMaxConnections}
		},
	}, {
		Key: "connection_limit_refuse_reads", Was: []string{"connectionLimitRefuseReads"},
		Help: "connections accepted beyond this many may not fetch",
		At: func(c *Config) Value {
			at := &c.Net.RefuseReadsOver
			return optional(at, 0, countValue[int]{at, 0, math.MaxInt32})
		},
	}, {
		Key: "connection_limit_refuse_writes", Was: []string{"connectionLimitRefuseWrites"},
		Help: "connections accepted beyond this many may not put, flush or delete",
		At: func(c *Config) Value {
			at := &c.Net.RefuseWritesOver
			return optional(at, 0, countValue[int]{at, 0, math.MaxInt32})
		},
	}, {
		Key:  "memcache_reply_key",
		Help: "what VALUE repeats: the queue, or all of the key, with its options",
		At: func(c *Config) Value {
			return choiceValue{&c.replyKey, []string{replyQueue, replyRequest}}
		},
	}, {
		Key: "enable_session_trace", Live: true, Was: []string{"enableSessionTrace"},
		Help: "logs the beginning and end of every connection",
		At:   func(c *Config) Value { return boolValue{&c.Net.TraceSessions} },
	}}
}

func statusOptions() []Option[Config] {
	return []Option[Config]{{
		Key: "status_file", Was: []string{"statusFile"},
		Help: `keeps the status over restarts; "auto" is the file status in data_dir`,
		At: func(c *Config) Value {
			at := &c.statusFile
			return optional(at, noStatusFile, automatic(at, "", textValue{at, "path", "/var/lib/kestrel"}))
		},
	}, {
		Key: "default_status", Was: []string{"defaultStatus"},
		Help: "status when none is kept: Up, WriteAvoid, ReadOnly or Quiescent",
		At:   func(c *Config) Value { return statusValue{&c.Net.DefaultStatus} },
	}, {
		Key: "status_change_grace_period", Was: []string{"statusChangeGracePeriod"},
		Help: "how long after a change to a stricter status it is enforced",
		At: func(c *Config) Value {
			return optionalDuration(&c.Net.StatusGrace)
		},
	}}
}

func processOptions() []Option[Config] {
	return []Option[Config]{{
		Key: "loops", Flag: "loops",
		Help: `event loops; "auto" is one for each processor`,
		At: func(c *Config) Value {
			return automatic(&c.Net.Loops, 0, countValue[int]{&c.Net.Loops, 0, 1024})
		},
	}, {
		Key: "event_loop", Flag: "event-loop",
		Help: "what event loops wait with: the reactor of gnet, or calls of epoll",
		At: func(c *Config) Value {
			return choiceValue{&c.Net.EventLoop, []string{netloop.EventLoopGnet, netloop.EventLoopEpoll}}
		},
	}, {
		Key: "log_level", Flag: "log-level", Live: true,
		Help: "how much is logged",
		At:   func(c *Config) Value { return levelValue{&c.LogLevel} },
	}, {
		Key: "log_format", Flag: "log-format",
		Help: "how it is written, on standard error",
		At: func(c *Config) Value {
			return choiceValue{&c.LogFormat, []string{formatText, FormatJSON}}
		},
	}}
}

// Find returns the option called key.
func Find[T any](options []Option[T], key string) (Option[T], bool) {
	i := slices.IndexFunc(options, func(o Option[T]) bool { return o.Key == key })
	if i < 0 {
		return Option[T]{}, false
	}
	return options[i], true
}
