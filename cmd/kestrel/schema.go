package main

import (
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/netloop"
)

// option is one key of the configuration, kept somewhere in a T.
type option[T any] struct {
	key  string
	flag string // of `kestrel serve`, which overrides the key; "" for none
	help string // one line
	at   func(*T) value
	was  []string // what the original called it
	live bool     // a reload applies a change
	idle string   // why it has no effect; "" if it has one
}

// group is some options under a title.
type group[T any] struct {
	title   string
	options []option[T]
}

// all returns the options of all groups.
func all[T any](groups []group[T]) []option[T] {
	var list []option[T]
	for _, g := range groups {
		list = append(list, g.options...)
	}
	return list
}

// serverOptions returns the keys at the top of the file.
func serverOptions() []group[config] {
	return []group[config]{
		{"Listening", listenOptions()},
		{"Data", dataOptions()},
		{"Clients", clientOptions()},
		{"Status", statusOptions()},
		{"Administration", adminOptions()},
		{"Process", processOptions()},
	}
}

func listenOptions() []option[config] {
	list := []option[config]{{
		key: "listen_address", flag: "listen", was: []string{"listenAddress", "host"},
		help: "address of every protocol; there is no authentication yet",
		at:   func(c *config) value { return hostValue{&c.listen} },
	}}
	for i, p := range protocols() {
		list = append(list, option[config]{
			key: p.key, flag: p.flag, was: p.was,
			help: "port of the " + p.name + ` protocol; "auto" is a free one, "none" or 0 is off`,
			at: func(c *config) value {
				at := &c.ports[i]
				return optional(at, portOff, automatic(at, portAuto, portValue{at}))
			},
		})
	}
	return append(list, option[config]{
		key: "connection_backlog", was: []string{"connectionBacklog"},
		help: `connections not yet accepted; "none" is up to the operating system`,
		at: func(c *config) value {
			return optional(&c.net.Backlog, 0, countValue[int]{&c.net.Backlog, 0, math.MaxUint16})
		},
	})
}

func dataOptions() []option[config] {
	return []option[config]{{
		key: "data_dir", flag: "data-dir", was: []string{"queuePath", "queue_path"},
		help: "where everything is kept; made if missing; for one server at a time",
		at:   func(c *config) value { return textValue{&c.engine.Dir, "path", "/var/lib/kestrel"} },
	}, {
		key:  "journal_size",
		help: "how large the journal may grow, and how much a restart reads",
		at:   func(c *config) value { return sizeValue{&c.engine.JournalSize, 1 << 20} },
	}, {
		key:  "segment_size",
		help: `of one file of the journal; "auto" is journal_size/8, 32MiB at most`,
		at: func(c *config) value {
			return automatic(&c.engine.SegmentSize, 0, sizeValue{&c.engine.SegmentSize, 64 << 10})
		},
	}, {
		key:  "memory_limit",
		help: `near it queues spill, past it puts fail; "auto": a quarter of memory`,
		at: func(c *config) value {
			return automatic(&c.engine.MemoryLimit, 0, sizeValue{&c.engine.MemoryLimit, 1 << 20})
		},
	}, {
		key:  "disk_reserve",
		help: `of disk that puts leave free; "auto" is 5 %, 1GiB at least, 10 % at most`,
		at: func(c *config) value {
			return automatic(&c.engine.DiskReserve, 0, sizeValue{&c.engine.DiskReserve, 1})
		},
	}, {
		key:  "backlog_compression",
		help: "of what is spilled to disk; s2 is fast, zstd takes less room",
		at:   func(c *config) value { return codecValue{&c.engine.BacklogCompression} },
	}, {
		key:  "backlog_cache",
		help: "keeps what is spilled in the page cache; else it goes past it",
		at:   func(c *config) value { return boolValue{&c.engine.BacklogCached} },
	}, {
		key:  "max_queues",
		help: "past it, no queue is created",
		at:   func(c *config) value { return countValue[int]{&c.engine.MaxQueues, 1, math.MaxInt32} },
	}, {
		key:  "expiration_timer_frequency",
		was:  []string{"expirationTimerFrequency", "expiration_timer_frequency_seconds"},
		help: "how often to remove expired items and queues that nobody asks for",
		at: func(c *config) value {
			return optionalDuration(&c.engine.SweepInterval)
		},
	}}
}

func clientOptions() []option[config] {
	return []option[config]{{
		key: "client_timeout", was: []string{"clientTimeout", "timeout"},
		help: "closes connections that ask for nothing for this long",
		at: func(c *config) value {
			return optionalDuration(&c.net.ClientTimeout)
		},
	}, {
		key: "max_open_transactions", flag: "max-open-transactions",
		was:  []string{"maxOpenTransactions"},
		help: "open reads that one connection may have on one queue",
		at: func(c *config) value {
			return countValue[int]{&c.net.MaxOpenReads, 1, math.MaxInt32}
		},
	}, {
		key:  "max_connections",
		help: "one too many is told so and closed; file descriptors bound it too",
		at: func(c *config) value {
			return countValue[int]{&c.net.MaxConnections, 1, netloop.DefaultMaxConnections}
		},
	}, {
		key: "connection_limit_refuse_reads", was: []string{"connectionLimitRefuseReads"},
		help: "connections accepted beyond this many may not fetch",
		at: func(c *config) value {
			at := &c.net.RefuseReadsOver
			return optional(at, 0, countValue[int]{at, 0, math.MaxInt32})
		},
	}, {
		key: "connection_limit_refuse_writes", was: []string{"connectionLimitRefuseWrites"},
		help: "connections accepted beyond this many may not put, flush or delete",
		at: func(c *config) value {
			at := &c.net.RefuseWritesOver
			return optional(at, 0, countValue[int]{at, 0, math.MaxInt32})
		},
	}, {
		key: "enable_session_trace", was: []string{"enableSessionTrace"},
		help: "logs the beginning and end of every connection",
		at:   func(c *config) value { return boolValue{&c.net.TraceSessions} },
	}}
}

func statusOptions() []option[config] {
	return []option[config]{{
		key: "status_file", was: []string{"statusFile"},
		help: `keeps the status over restarts; "auto" is the file status in data_dir`,
		at: func(c *config) value {
			at := &c.statusFile
			return optional(at, noStatusFile, automatic(at, "", textValue{at, "path", "/var/lib/kestrel"}))
		},
	}, {
		key: "default_status", was: []string{"defaultStatus"},
		help: "status when none is kept: Up, WriteAvoid, ReadOnly or Quiescent",
		at:   func(c *config) value { return statusValue{&c.net.DefaultStatus} },
	}, {
		key: "status_change_grace_period", was: []string{"statusChangeGracePeriod"},
		help: "how long after a change to a stricter status it is enforced",
		at: func(c *config) value {
			return optionalDuration(&c.net.StatusGrace)
		},
	}}
}

func processOptions() []option[config] {
	return []option[config]{{
		key: "loops", flag: "loops",
		help: `event loops; "auto" is one for each processor`,
		at: func(c *config) value {
			return automatic(&c.net.Loops, 0, countValue[int]{&c.net.Loops, 0, 1024})
		},
	}, {
		key: "log_level", flag: "log-level", live: true,
		help: "how much is logged",
		at:   func(c *config) value { return levelValue{&c.logLevel} },
	}, {
		key: "log_format", flag: "log-format",
		help: "how it is written, on standard error",
		at: func(c *config) value {
			return choiceValue{&c.logFormat, []string{formatText, formatJSON}}
		},
	}}
}

// find returns the option called key.
func find[T any](options []option[T], key string) (option[T], bool) {
	i := slices.IndexFunc(options, func(o option[T]) bool { return o.key == key })
	if i < 0 {
		return option[T]{}, false
	}
	return options[i], true
}
