package config

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/segment"
)

// parse loads a configuration that must be right.
func parse(t *testing.T, src string, overrides ...Override) *Config {
	t.Helper()
	c, err := Parse("kestrel.toml", src, overrides)
	if err != nil {
		t.Fatalf("parseConfig(%q) = %v", src, err)
	}
	return c
}

func TestConfigDefaults(t *testing.T) {
	c := parse(t, "")
	want := engine.Options{
		Dir:         "./kestrel-data",
		JournalSize: 64 << 20, MaxQueues: 1 << 20, MaxFanoutChildren: 1000,
		Settings: engine.Settings{
			Default: engine.DefaultQueueOptions(),
			Queues:  map[string]engine.QueueOptions{}, Aliases: map[string][]string{},
		},
	}
	if !reflect.DeepEqual(c.Engine, want) {
		t.Errorf("engine options = %+v, want %+v", c.Engine, want)
	}
	if n := c.Net; n.Memcache != "127.0.0.1:22133" || n.StatusFile != "kestrel-data/status" ||
		n.MaxOpenReads != 1 || n.Loops != 0 || n.EventLoop != netloop.DefaultEventLoop || n.ClientTimeout != 0 ||
		n.DefaultStatus != netloop.Up {
		t.Errorf("server options = %+v", n)
	}
	if c.LogLevel != slog.LevelInfo || c.LogFormat != "text" || c.Warnings != nil || c.Idle != nil {
		t.Errorf("config = %+v", c)
	}
}

func TestConfigServerOptions(t *testing.T) {
	c := parse(t, `
listen_address = "::1"
memcache_port = 11211
thrift_port = 0
text_port = 4444
connection_backlog = 100
data_dir = "/q"
journal_size = "64MiB"
segment_size = 1048576
memory_limit = "10MB"
disk_reserve = "3GiB"
backlog_compression = "s2"
backlog_cache = true
backlog_read = "direct"
max_queues = 7
max_fanout_children = 8
expiration_timer_frequency = "1s"
client_timeout = "1h30m"
max_open_transactions = 100
max_connections = 1000
connection_limit_refuse_reads = 800
connection_limit_refuse_writes = 700
enable_session_trace = true
status_file = "/s"
default_status = "readonly"
status_change_grace_period = "7d"
loops = 3
event_loop = "EPOLL"
log_level = "WARN"
log_format = "json"
`)
	e, n := c.Engine, c.Net
	e.Settings = engine.Settings{}
	if want := (engine.Options{
		Dir: "/q", JournalSize: 64 << 20, SegmentSize: 1 << 20, MemoryLimit: 10e6, MaxQueues: 7,
		MaxFanoutChildren: 8,
		SweepInterval:     time.Second, DiskReserve: 3 << 30, BacklogCompression: segment.CodecS2,
		BacklogCached: true, BacklogRead: segment.ReadDirect,
	}); !reflect.DeepEqual(e, want) {
		t.Errorf("engine options = %+v, want %+v", e, want)
	}
	if want := (netloop.Options{
		Memcache: "[::1]:11211", Text: "[::1]:4444", Backlog: 100, Loops: 3, EventLoop: "epoll", MaxOpenReads: 100,
		ClientTimeout: 90 * time.Minute, MaxConnections: 1000, RefuseReadsOver: 800,
		RefuseWritesOver: 700, TraceSessions: true,
		StatusFile: "/s", DefaultStatus: netloop.ReadOnly, StatusGrace: 7 * 24 * time.Hour,
	}); !reflect.DeepEqual(n, want) {
		t.Errorf("server options = %+v, want %+v", n, want)
	}
	if c.LogLevel != slog.LevelWarn || c.LogFormat != "json" {
		t.Errorf("log = %v, %v", c.LogLevel, c.LogFormat)
	}
}

func TestConfigQueueOptions(t *testing.T) {
	c := parse(t, `
[queues.all]
max_items = 1
max_size = "2KiB"
max_item_size = 3
max_age = "4s"
max_memory_size = "5MiB"
discard_old_when_full = true
keep_journal = false
sync_journal = "6ms"
expire_to_queue = "seven+child"
max_expire_sweep = 8
fanout_only = true
max_queue_age = "9m"
open_transaction_timeout = "10s"
enable_trace = true
white_list_client_id_for_enqueue = "eleven"
white_list_client_id_for_dequeue = "twelve"

[queues]
none = { max_items = "none", max_age = "none", expire_to_queue = "none", sync_journal = "0s" }
never.sync_journal = "never"
`)
	want := engine.QueueOptions{
		MaxItems: 1, MaxSize: 2048, MaxItemSize: 3, MaxAge: 4 * time.Second, MaxMemorySize: 5 << 20,
		DiscardOldWhenFull: true, Sync: engine.SyncEvery(6 * time.Millisecond), ExpireTo: "seven+child",
		MaxExpireSweep: 8, FanoutOnly: true, MaxQueueAge: 9 * time.Minute,
		OpenReadTimeout: 10 * time.Second, Trace: true,
		EnqueueClientID: "eleven", DequeueClientID: "twelve",
	}
	queues := c.Engine.Settings.Queues
	if got := queues["all"]; got != want {
		t.Errorf("queue all = %+v, want %+v", got, want)
	}
	if got := queues["none"]; got != engine.DefaultQueueOptions() {
		t.Errorf("queue none = %+v, want the defaults", got)
	}
	if got := queues["never"].Sync; got != engine.SyncNever {
		t.Errorf("queue never: sync_journal = %v", got)
	}
}

// TestConfigInheritance is the example of the original's guide, and what follows from its rules.
func TestConfigInheritance(t *testing.T) {
	c := parse(t, `
[default]
max_memory_size = "8MiB"
[queues.q]
max_items = 500
[queues."q+fanout"]
max_age = "1m"
[queues.x]
max_memory_size = "16MiB"
`)
	for _, tt := range []struct {
		queue         string
		memory, items int64
		age           time.Duration
	}{
		{"q", 8 << 20, 500, 0},
		{"q+fanout", 8 << 20, 500, time.Minute},
		{"x", 16 << 20, math.MaxInt32, 0},
		{"q+other", 8 << 20, 500, 0},
		{"z", 8 << 20, math.MaxInt32, 0},
		{"q+fanout+more", 8 << 20, 500, 0}, // a child of q, not of q+fanout
	} {
		got := c.Engine.Settings.For(tt.queue)
		if got.MaxMemorySize != tt.memory || got.MaxItems != tt.items || got.MaxAge != tt.age {
			t.Errorf("%s: %d bytes, %d items, age %v; want %d, %d, %v", tt.queue, got.MaxMemorySize,
				got.MaxItems, got.MaxAge, tt.memory, tt.items, tt.age)
		}
	}
}

func TestConfigSpecifiedWins(t *testing.T) {
	c := parse(t, `
[queues."q+a+b"] # before its parent
keep_journal = true
[queues."lost+a"] # its parent has no block
max_items = 9
[default]
max_memory_size = "8MiB"
max_age = "1h"
expire_to_queue = "dead"
discard_old_when_full = true
[queues.q]
max_memory_size = "128MiB" # the built-in default
max_age = "none"
expire_to_queue = "none"
keep_journal = false
`, Override{"sync_journal", "sync-journal", "never"})
	byDefault := engine.DefaultQueueOptions()
	byDefault.MaxMemorySize, byDefault.MaxAge, byDefault.Sync = 8<<20, time.Hour, engine.SyncNever
	byDefault.DiscardOldWhenFull, byDefault.ExpireTo = true, "dead"
	q := byDefault
	q.MaxMemorySize, q.MaxAge, q.ExpireTo, q.KeepJournal = 128<<20, 0, "", false
	child := q
	child.KeepJournal = true
	lost := byDefault
	lost.MaxItems = 9
	dead := byDefault
	dead.ExpireTo = "" // not into itself
	for name, want := range map[string]engine.QueueOptions{
		"other": byDefault, "q": q, "q+x": q, "q+a+b": child, "lost+a": lost, "lost": byDefault,
		"dead": dead, "dead+a": dead,
	} {
		if got := c.Engine.Settings.For(name); got != want {
			t.Errorf("%s = %+v, want %+v", name, got, want)
		}
	}
}

func TestConfigOwnTargetOfChild(t *testing.T) {
	c := parse(t, `
[queues.q]
expire_to_queue = "q+dead"
max_items = 5
`)
	if got := c.Engine.Settings.For("q+dead"); got.ExpireTo != "" || got.MaxItems != 5 {
		t.Errorf("q+dead = %+v, want as q, but with no queue to expire to", got)
	}
}

func TestConfigOverrides(t *testing.T) {
	c := parse(t, `
data_dir = "/file"
max_open_transactions = 3
[default]
sync_journal = "100ms"
[queues.own]
sync_journal = "200ms"
`, Override{"data_dir", "data-dir", "17"}, Override{"memcache_port", "memcache-port", "auto"},
		Override{"sync_journal", "sync-journal", "never"}, Override{"loops", "loops", "2"})
	if c.Engine.Dir != "17" || c.Net.StatusFile != "17/status" || c.Net.Memcache != "127.0.0.1:0" ||
		c.Net.Loops != 2 || c.Net.MaxOpenReads != 3 {
		t.Errorf("config = %+v", c)
	}
	s := c.Engine.Settings
	own := s.For("own").Sync
	if s.Default.Sync != engine.SyncNever || own != engine.SyncEvery(200*time.Millisecond) {
		t.Errorf("sync_journal = %v, of queue own %v", s.Default.Sync, own)
	}
}

func TestConfigAliases(t *testing.T) {
	c := parse(t, `
[aliases.all]
destination_queues = ["work", "mail+audit", "others"]
[aliases.others]
destination_queues = []
[queues.all]
max_queue_age = "1d"
[default]
default_journal_size = "1MiB"
min_journal_compact_delay = "none"
`)
	want := map[string][]string{"all": {"work", "mail+audit", "others"}, "others": {}}
	if got := c.Engine.Settings.Aliases; !reflect.DeepEqual(got, want) {
		t.Errorf("aliases = %q, want %q", got, want)
	}
	warnings := []string{
		`kestrel.toml:4: aliases.others: no destination_queues: items put to the alias are dropped`,
		`kestrel.toml:7: queues.all.max_queue_age: has no effect without expiration_timer_frequency`,
		`kestrel.toml:6: queues.all: an alias has the same name: puts go to the alias, and nothing ` +
			`can be fetched`,
	}
	if !reflect.DeepEqual(c.Warnings, warnings) {
		t.Errorf("warnings = %q, want %q", c.Warnings, warnings)
	}
	idle := []string{"default_journal_size", "min_journal_compact_delay"}
	if !reflect.DeepEqual(c.Idle, idle) {
		t.Errorf("idle = %q, want %q", c.Idle, idle)
	}
}

func TestLoadConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kestrel.toml")
	_, err := Source{File: file}.Load()
	if want := "open " + file + ": no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("load of no file = %v, want %s", err, want)
	}
	if err := os.WriteFile(file, []byte("loops = 5"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := (Source{File: file}).Load(); err != nil || c.Net.Loops != 5 {
		t.Errorf("load = %+v, %v", c, err)
	}
	if err := os.WriteFile(file, []byte(strings.Repeat("#", MaxSize+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Source{File: file}.Load()
	if want := file + ": larger than 1MiB"; err == nil || err.Error() != want {
		t.Errorf("load of a large file = %v, want %s", err, want)
	}
}
