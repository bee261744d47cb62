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

	Secret bool // no message repeats what is written for it
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
		{"Users", userOptions()},
		{"Status", statusOptions()},
		{"Administration", adminOptions()},
		{"Process", processOptions()},
	}
}

func listenOptions() []Option[Config] {
	list := []Option[Config]{{
		Key: "listen_address", Flag: "listen", Was: []string{"listenAddress", "host"},
		Help: "address of every protocol that has no [[listener]]",
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
		Help: `connections waiting to be accepted; "none" is the system's default`,
		At: func(c *Config) Value {
			return optional(&c.Net.Backlog, 0, countValue[int]{&c.Net.Backlog, 0, math.MaxUint16})
		},
	})
}

func dataOptions() []Option[Config] {
	return []Option[Config]{{
		Key: "data_dir", Flag: "data-dir", Was: []string{"queuePath", "queue_path"},
		Help: "where all data is; created if missing; for one server at a time",
		At:   func(c *Config) Value { return textValue{&c.Engine.Dir, "path", "/var/lib/kestrel"} },
	}, {
		Key:  "journal_size",
		Help: "most that the journal takes, besides open reads and small queues",
		At:   func(c *Config) Value { return sizeValue{&c.Engine.JournalSize, 1 << 20} },
	}, {
		Key:  "segment_size",
		Help: `size of a journal file; "auto" is journal_size/8, at most 32MiB`,
		At: func(c *Config) Value {
			return automatic(&c.Engine.SegmentSize, 0, sizeValue{&c.Engine.SegmentSize, 64 << 10})
		},
	}, {
		Key:  "memory_limit",
		Help: `queues spill near it, puts fail above it; "auto": a quarter of memory`,
		At: func(c *Config) Value {
			return automatic(&c.Engine.MemoryLimit, 0, sizeValue{&c.Engine.MemoryLimit, 1 << 20})
		},
	}, {
		Key:  "disk_reserve",
		Help: `disk left free, 4 segments or more; "auto": 5 % or 1GiB, at most 10 %`,
		At: func(c *Config) Value {
			return automatic(&c.Engine.DiskReserve, 0, sizeValue{&c.Engine.DiskReserve, 1})
		},
	}, {
		Key:  "backlog_compression",
		Help: "compresses what queues spill to disk; s2 is fast, zstd packs better",
		At:   func(c *Config) Value { return codecValue{&c.Engine.BacklogCompression} },
	}, {
		Key:  "backlog_cache",
		Help: "keeps backlogs in the page cache; false bypasses it",
		At:   func(c *Config) Value { return boolValue{&c.Engine.BacklogCached} },
	}, {
		Key: "backlog_read", Flag: "backlog-read",
		Help: "how to read backlogs that bypassed the page cache: maps, or bypass it",
		At:   func(c *Config) Value { return readValue{&c.Engine.BacklogRead} },
	}, {
		Key:  "max_queues",
		Help: "the server creates no queue beyond this number",
		At:   func(c *Config) Value { return countValue[int]{&c.Engine.MaxQueues, 1, math.MaxInt32} },
	}, {
		Key:  "max_fanout_children",
		Help: "children of one queue; the server creates none beyond this number",
		At: func(c *Config) Value {
			return countValue[int]{&c.Engine.MaxFanoutChildren, 1, math.MaxInt32}
		},
	}, {
		Key:  "expiration_timer_frequency",
		Was:  []string{"expirationTimerFrequency", "expiration_timer_frequency_seconds"},
		Help: "how often to remove expired items and queues that no client uses",
		At: func(c *Config) Value {
			return optionalDuration(&c.Engine.SweepInterval)
		},
	}}
}

func clientOptions() []Option[Config] {
	return []Option[Config]{{
		Key: "client_timeout", Was: []string{"clientTimeout", "timeout"},
		Help: "closes a connection that sends no request for this long",
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
		Help: "further connections get an error; file descriptors limit this too",
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
		Help: "what VALUE repeats: the queue, or the whole key with its options",
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
		Help: `holds the status across restarts; "auto" is the file data_dir/status`,
		At: func(c *Config) Value {
			at := &c.statusFile
			return optional(at, noStatusFile, automatic(at, "", textValue{at, "path", "/var/lib/kestrel"}))
		},
	}, {
		Key: "default_status", Was: []string{"defaultStatus"},
		Help: "status if the file has none: Up, WriteAvoid, ReadOnly or Quiescent",
		At:   func(c *Config) Value { return statusValue{&c.Net.DefaultStatus} },
	}, {
		Key: "status_change_grace_period", Was: []string{"statusChangeGracePeriod"},
		Help: "how long clients see a stricter status before the server enforces it",
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
		Help: "how event loops wait: the reactor of gnet, or epoll calls",
		At: func(c *Config) Value {
			return choiceValue{&c.Net.EventLoop, netloop.EventLoops()}
		},
	}, {
		Key: "log_level", Flag: "log-level", Live: true,
		Help: "the least severe lines that the server logs",
		At:   func(c *Config) Value { return levelValue{&c.LogLevel} },
	}, {
		Key: "log_format", Flag: "log-format",
		Help: "format of the log, which goes to standard error",
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
