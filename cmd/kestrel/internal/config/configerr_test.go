package config

import (
	"errors"
	"strings"
	"testing"
)

// badConfigs are configurations and everything that is wrong with them. They seed FuzzConfig.
var badConfigs = []struct {
	name string
	src  string
	want string // a line for each problem, without the name of the file
}{
	{"not TOML", "loops = 1\nloops = = 2\n", `2: expected value but found '=' instead`},
	{"key twice", "loops = 1\n\nloops = 2\n", `3: Key 'loops' has already been defined.`},
	{"name without quotes", "[queues.a+b]\n", `1: expected '.' or ']' to end table name, ` +
		`but got '+' instead; names with other characters than letters, digits, _ and - need quotes: ` +
		`[queues."work+audit"]`},
	{"size", "[queues.work]\n\n# limits\nmax_size = \"lots\"\n",
		`4: queues.work.max_size: want a size such as 1048576 or "16MiB", or "none", have "lots"`},
	{"size too large", "[default]\nmax_memory_size = \"9000000000GiB\"\n",
		`2: default.max_memory_size: "9000000000GiB" is more than the largest size, ` +
			`9223372036854775807 bytes`},
	{"size negative", "[default]\nmax_memory_size = -1\n",
		`2: default.max_memory_size: want a size such as 1048576 or "16MiB", have -1`},
	{"size too small", "journal_size = 5\n", `1: journal_size: want at least 1MiB, have 5`},
	{"duration without a unit", "client_timeout = 30\n",
		`1: client_timeout: want a duration such as "30s" or "100ms", or "none", have 30`},
	{"duration negative", "client_timeout = \"-1s\"\n",
		`1: client_timeout: want a duration such as "30s" or "100ms", or "none", have "-1s"`},
	{"duration too short", "[default]\nmax_age = \"1us\"\n",
		`2: default.max_age: want 0 or at least 1ms, have "1us"`},
	{"sync", "[default]\nsync_journal = true\n",
		`2: default.sync_journal: want "always", "never" or a period such as "100ms", have true`},
	{"bool", "enable_session_trace = \"yes\"\n",
		`1: enable_session_trace: want true or false, have "yes"`},
	{"number", "max_open_transactions = 0\n",
		`1: max_open_transactions: want a whole number from 1 to 2147483647, have 0`},
	{"float", "max_queues = 1e3\n",
		`1: max_queues: want a whole number from 1 to 2147483647, have 1000`},
	{"port", "memcache_port = 65536\n", `1: memcache_port: want a port from 0 to 65535 ` +
		`(0: none), or "auto", or "none", have 65536`},
	{"everything off", "memcache_port = 0\nthrift_port = 0\ntext_port = 0\n",
		`1: memcache_port: every protocol is off: nobody could reach the server`},
	{"address", "listen_address = \"127.0.0.1:22133\"\n", `1: listen_address: want an address ` +
		`without a port such as "127.0.0.1", or "0.0.0.0" for all, have "127.0.0.1:22133"`},
	{"status", "default_status = \"Down\"\n", `1: default_status: want "Up", "WriteAvoid", ` +
		`"ReadOnly" or "Quiescent", have "Down"`},
	{"level", "log_level = \"loud\"\n",
		`1: log_level: want "debug", "info", "warn" or "error", have "loud"`},
	{"empty string", "data_dir = \"\"\n",
		`1: data_dir: want a path such as "/var/lib/kestrel", have ""`},
	{"segment larger than the journal", "journal_size = \"1MiB\"\nsegment_size = \"1MiB\"\n",
		`2: segment_size: want at most half of journal_size, 512KiB, have 1MiB`},
	{"mistyped", "[queues.work]\nmax_item = 1\n",
		`2: queues.work.max_item: unknown key; did you mean max_items?`},
	{"letters swapped", "[default]\nfanout_olny = true\n",
		`2: default.fanout_olny: unknown key; did you mean fanout_only?`},
	{"camel case", "[default]\nmaxItems = 1\n",
		`2: default.maxItems: unknown key; did you mean max_items?`},
	{"old name", "queuePath = \"/q\"\n", `1: queuePath: unknown key; did you mean data_dir?`},
	{"old name elsewhere", "journal = true\n", `1: journal: unknown key; keep_journal ` +
		`belongs under [default] or [queues.NAME]`},
	{"queue's key at the top", "max_items = 1\n",
		`1: max_items: belongs under [default] or [queues.NAME]`},
	{"server's key under a table", "[default]\nloops = 1\n",
		`2: default.loops: belongs at the top of the file, before the first [table]`},
	{"mistyped table", "[queue.work]\n", `1: queue: unknown key; did you mean queues?`},
	{"unknown key of an alias", "[aliases.a]\ndestination_queue = []\n",
		`2: aliases.a.destination_queue: unknown key; did you mean destination_queues?`},
	{"key without a queue", "[queues]\nmax_items = 1\n",
		`2: queues.max_items: belongs in a table with a name, such as [queues.work]`},
	{"no table", "default = 1\nqueues = [1]\n[[aliases]]\n",
		"1: default: want a table, written [default], have 1\n" +
			"2: queues: want a table, written [queues], have an array\n" +
			"3: aliases: want a table, written [aliases], have an array of tables"},
	{"queue is no table", "[queues]\nwork = 1979-05-27\n",
		`2: queues.work: want a table, written [queues.work], have a date or time`},
	{"queue name", "[queues.\"a.b\"]\n[queues.\"\"]\n[queues.'+']\n",
		"1: queues.\"a.b\": queue name \"a.b\" contains illegal characters (one of: ~ . / NUL)\n" +
			"2: queues.\"\": queue name \"\" is empty\n" +
			"3: queues.\"+\": queue name \"+\" consists of + only"},
	{"queue name with a dot", "[queues.a.b]\nmax_items = 1\n", `1: queues.a.b: unknown table; ` +
		`a name with a dot needs quotes, [queues."a.b"], and cannot be that of a queue`},
	{"alias of itself", "[aliases.a]\ndestination_queues = [\"a\"]\n",
		`2: aliases.a.destination_queues: alias reaches itself: a -> a`},
	{"cycle", "[aliases]\na.destination_queues = [\"q\", \"b\"]\nb.destination_queues = [\"a\"]\n",
		"2: aliases.a.destination_queues: alias reaches itself: a -> b -> a\n" +
			"3: aliases.b.destination_queues: alias reaches itself: b -> a -> b"},
	{"destination", "[aliases.a]\ndestination_queues = [\"x.y\"]\n",
		`2: aliases.a.destination_queues: queue name "x.y" contains illegal characters ` +
			`(one of: ~ . / NUL)`},
	{"destinations", "[aliases]\na.destination_queues = \"q\"\nb.destination_queues = [\"q\", 7]\n",
		`2: aliases.a.destination_queues: want a list of queue names such as ` +
			"[\"work\", \"audit\"], have \"q\"\n" +
			`3: aliases.b.destination_queues: want a list of queue names such as ` +
			`["work", "audit"], have 7 in it`},
	{"expires into itself", "[queues.work]\nexpire_to_queue = \"work\"\n",
		`2: queues.work.expire_to_queue: a queue cannot expire items into itself`},
	{"expires into a bad name", "[default]\nexpire_to_queue = \"a~b\"\n",
		`2: default.expire_to_queue: queue name "a~b" contains illegal characters ` +
			`(one of: ~ . / NUL)`},
	{"discards everything", "[default]\ndiscard_old_when_full = true\n[queues.work]\nmax_items = 0\n",
		`3: queues.work.discard_old_when_full: with a limit of 0, every item would be discarded`},
	{"an option without effect", "[default]\nmax_journal_size = \"big\"\n",
		`2: default.max_journal_size: want a size such as 1048576 or "16MiB", have "big"`},
	{"many", "lops = 1\nloops = \"x\"\n[default]\n\nmax_age = 1\n" +
		"[queues.b]\nmax_items = 'x'\n[queues.a]\nx = 1\n",
		"1: lops: unknown key; did you mean loops?\n" +
			"2: loops: want a whole number from 0 to 1024, or \"auto\", have \"x\"\n" +
			"5: default.max_age: want a duration such as \"30s\" or \"100ms\", or \"none\", have 1\n" +
			"7: queues.b.max_items: want a whole number from 0 to 9223372036854775807, " +
			"or \"none\", have \"x\"\n" +
			"9: queues.a.x: unknown key"},
	{"nested", "x = " + strings.Repeat("[", 20), `1: value nested more than 16 deep`},
	{"dotted", "\n" + strings.Repeat("a.", 20) + "b = 1", `2: key of more than 16 parts`},
	{"long key", strings.Repeat("a", 600) + " = 1", `1: key longer than 512 bytes`},
}

func TestConfigErrors(t *testing.T) {
	for _, tt := range badConfigs {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("kestrel.toml", tt.src, nil)
			var wrong *Error
			if !errors.As(err, &wrong) {
				t.Fatalf("parseConfig(%q) = %v, want a configError", tt.src, err)
			}
			want := "kestrel.toml:" + strings.ReplaceAll(tt.want, "\n", "; kestrel.toml:")
			if got := err.Error(); got != want {
				t.Errorf("parseConfig(%q)\n got %s\nwant %s", tt.src, got, want)
			}
		})
	}
}

func TestConfigErrorsOfFlags(t *testing.T) {
	_, err := Parse("kestrel.toml", "lops = 1", []Override{
		{"memcache_port", "memcache-port", "x"}, {"sync_journal", "sync-journal", "5"},
	})
	want := `--memcache-port: want a port from 0 to 65535 (0: none), or "auto", or "none", ` +
		`have "x"; ` +
		`--sync-journal: want "always", "never" or a period such as "100ms", have "5"; ` +
		`kestrel.toml:1: lops: unknown key; did you mean loops?`
	if err == nil || err.Error() != want {
		t.Errorf("parseConfig\n got %v\nwant %s", err, want)
	}
}
