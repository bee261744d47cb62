package engine

import (
	"maps"
	"strconv"
	"strings"
	"time"
)

// reload changes the settings and reloads them; the next start has them too.
func (s *script) reload(f []string) string {
	next := s.opts.Settings
	next.Queues, next.Aliases = maps.Clone(next.Queues), maps.Clone(next.Aliases)
	switch f[0] {
	case "alias":
		setKey(&next.Aliases, f[1], f[2:])
	case "unalias":
		delete(next.Aliases, f[1])
	case "set":
		o := next.For(f[1])
		for _, option := range f[2:] {
			s.setOption(&o, option)
		}
		if f[1] == "*" {
			next.Default = o
		} else {
			setKey(&next.Queues, f[1], o)
		}
	}
	if err := s.e.Reload(next); err != nil {
		return "refused"
	}
	s.opts.Settings = next
	return "ok"
}

func setKey[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[key] = value
}

func (s *script) setOption(o *QueueOptions, option string) {
	key, value, _ := strings.Cut(option, "=")
	switch key {
	case "max_items":
		o.MaxItems = s.number(value)
	case "max_size":
		o.MaxSize = s.number(value)
	case "max_item_size":
		o.MaxItemSize = s.number(value)
	case "max_memory_size":
		o.MaxMemorySize = s.number(value)
	case "max_expire_sweep":
		o.MaxExpireSweep = s.number(value)
	case "max_age":
		o.MaxAge = s.duration(value)
	case "max_queue_age":
		o.MaxQueueAge = s.duration(value)
	case "timeout":
		o.OpenReadTimeout = s.duration(value)
	case "discard":
		o.DiscardOldWhenFull = value != "no"
	case "fanout_only":
		o.FanoutOnly = value != "no"
	case "journal":
		o.KeepJournal = value != "no"
	case "expire_to":
		o.ExpireTo = value
	case "enqueue_client":
		o.EnqueueClientID = value
	case "dequeue_client":
		o.DequeueClientID = value
	default:
		s.t.Fatalf("unknown option %q", option)
	}
}

func (s *script) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}
