package scalaconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
)

// TestConfigImportValues tests what becomes of single assignments.
func TestConfigImportValues(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"clientTimeout = 30.seconds", `client_timeout = "30s"`},
		{"clientTimeout = 0.seconds", `client_timeout = "none"`},
		{"clientTimeout = Some(1.minute)", `client_timeout = "1m"`},
		{"maxOpenTransactions = (2 + 3) * 4 - 1", "max_open_transactions = 19"},
		{"maxOpenTransactions = 100L.toInt", "max_open_transactions = 100"},
		{"maxOpenTransactions = 0x10", "max_open_transactions = 16"},
		{`statusFile = """/var/run/status"""`, `status_file = "/var/run/status"`},
		{"enableSessionTrace = true", "enable_session_trace = true"},
		{"defaultStatus = Status.Quiescent", `default_status = "Quiescent"`},
		{"default.syncJournal = 0.milliseconds", "[default]\nsync_journal = \"always\""},
		{"default.syncJournal = Duration.Top", "[default]\nsync_journal = \"never\""},
		{"default.maxAge = None", "[default]\nmax_age = \"none\""},
		{"default.maxItems = Int.MaxValue", "[default]\nmax_items = \"none\""},
		{"default.maxMemorySize = 16.kilobytes * 2", "[default]\nmax_memory_size = \"32KiB\""},
		{"default = new QueueBuilder { maxItems = 3 }", "[default]\nmax_items = 3"},
		{"queues = Nil", ""},
		{"zookeeper = None", ""},
		{"zookeeper = new ZooKeeperBuilder { host = \"zk\"; pathPrefix = \"/k\" }",
			"[discovery.zookeeper]\nhosts = [\"zk:2181\"]\npath_prefix = \"/k\""},
		{"zookeeper = Some(new ZooKeeperConfig { host = \"zk\"; port = 2182; pathPrefix = \"/k\"\n" +
			"sessionTimeout = 5.seconds; acl = ZooKeeperUtils.OPEN_ACL_UNSAFE })",
			"[discovery.zookeeper]\nhosts = [\"zk:2182\"]\npath_prefix = \"/k\"\nsession_timeout = \"5s\"\nacl = \"open\""},
		{"queues = new QueueBuilder { name = \"a\" } :: Nil", "[queues.a]"},
		{"queues = new QueueBuilder { name = \"a b\"; maxItems = 1 } ::\n List()",
			"[queues.\"a b\"]\nmax_items = 1"},
	} {
		const before = "listen_address = \"127.0.0.1\"\n"
		tr := Translate("k", "new KestrelConfig { listenAddress = \"127.0.0.1\"\n"+tt.in+" }")
		got := strings.TrimSpace(strings.TrimPrefix(tr.String(), before))
		if err := tr.Problems.OrNil(); err != nil || got != tt.want {
			t.Errorf("%s: got %q, %v, want %q", tt.in, got, err, tt.want)
		}
	}
}

// TestConfigImportProblems tests that nothing is passed over in silence. The assignment is in
// line 2.
func TestConfigImportProblems(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"maxOpenTransactions = 9223372036854775807 + 1", "maxOpenTransactions: the number is too large"},
		{"maxOpenTransactions = 9223372036854775807 * 3", "maxOpenTransactions: the number is too large"},
		{"maxOpenTransactions = 99999999999999999999", `maxOpenTransactions: not understood: "99999`},
		{"maxOpenTransactions = 1 + 2.seconds", `maxOpenTransactions: not understood: "+"`},
		{"maxOpenTransactions = 2 / 2", `maxOpenTransactions: not understood: "/"`},
		{"maxOpenTransactions = None", "maxOpenTransactions: want a whole number"},
		{"clientTimeout = 2.fortnights", "clientTimeout: want a duration"},
		{"clientTimeout = 1.megabyte", "clientTimeout: want a duration"},
		{"clientTimeout = 30.seconds.fromNow", `clientTimeout: not understood: "."`},
		{"queuePath = \"/a", "queuePath: the string does not end"},
		{`queuePath = "\q"`, `queuePath: cannot read the string "\q"`},
		{"queuePath = sys.env(\"HOME\")", "queuePath: not understood: sys.env(…)"},
		{"queues = new AliasBuilder { name = \"a\" }", "queues: want 'new QueueBuilder { … }'"},
		{"queues = new QueueBuilder { maxItems = 1 }", "queues: it has no name"},
		{"queues = new QueueBuilder { name = \"a.b\" }", `queues: queue name "a.b" contains illegal`},
		{"queues = new QueueBuilder(1) { name = \"a\" }",
			"queues: not understood: arguments of QueueBuilder"},
		{"queues = 5", "queues: want a list of QueueBuilder"},
		{"maxAge = 5.seconds", "maxAge: there is no such option"},
		{"zookeeper = new ZooKeeperBuilder { pathPrefix = \"/k\" }", "zookeeper: it has no host"},
		{"zookeeper = new ZooKeeperBuilder { host = \"zk\" }", "discovery.zookeeper: path \"\": want an absolute path"},
		{"zookeeper = new ZooKeeperBuilder { host = \"zk\"; pathPrefix = \"/k\"; acl = Mine }",
			"zookeeper.acl: want \"open\" or \"creator\""},
		{"zookeeper = new ZooKeeperBuilder { host = \"zk\"; pathPrefix = \"/k\"; clientInitializer = x }",
			"zookeeper.clientInitializer: there is no such option"},
		{"zookeeper = 5", "zookeeper: want 'new ZooKeeperBuilder { … }'"},
		{"foo", `not understood: "foo"`},
		{"val a = { 1 }; maxOpenTransactions = 3", `not understood: "val"`},
		{"/* the end", "the comment does not end"},
		{"maxOpenTransactions = " + strings.Repeat("(", 60), "maxOpenTransactions: nested too deeply"},
	} {
		tr := Translate("k", "new KestrelConfig {\n"+tt.in+"\n}")
		err := tr.Problems.OrNil()
		if err == nil || !strings.Contains(err.Error(), "k:2: "+tt.want) {
			t.Errorf("%s: %v, want k:2: %s", tt.in, err, tt.want)
		}
	}
	for _, tt := range []struct{ in, want string }{
		{"", "k:1: want 'new KestrelConfig { … }'"},
		{"port = 22133\nqueue_path = \"/var/spool/kestrel\"\n", "k:1: want 'new KestrelConfig"},
		{"new KestrelConfig {", "k:1: a closing brace is missing"},
		{"new KestrelConfig { }\nval a = 1", "k:2: only one"},
		{strings.Repeat(" ", config.MaxSize+1), "k: the file is larger than 1MiB"},
	} {
		err := Translate("k", tt.in).Problems.OrNil()
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%.40q: %v, want %s", tt.in, err, tt.want)
		}
	}
}

// FuzzTranslate translates arbitrary bytes. What comes out is a configuration, or there are problems. Each problem is
// one line, about a line that exists.
func FuzzTranslate(f *testing.F) {
	originals, err := filepath.Glob("../../testdata/original/*.scala")
	if err != nil || len(originals) == 0 {
		f.Fatal(originals, err)
	}
	for _, name := range originals {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(src))
	}
	f.Add("new KestrelConfig { a = b :: c }")
	f.Add("new KestrelConfig { queues = List(")
	f.Fuzz(func(t *testing.T, src string) {
		tr := Translate("k", src)
		if len(tr.Problems.Problems) == 0 {
			if _, err := config.Parse("", tr.String(), nil); err != nil {
				t.Errorf("translate(%q) makes\n%s\nwhich is wrong: %v", src, tr, err)
			}
		}
		for _, p := range append(tr.Notes, tr.Problems.Problems...) {
			if last := strings.Count(src, "\n") + 1; p.Line < 0 || p.Line > last {
				t.Errorf("translate(%q): %v: the last line is %d", src, p, last)
			}
			if s := fmt.Sprint(p); strings.Contains(s, "\n") {
				t.Errorf("translate(%q) says %q", src, s)
			}
		}
	})
}
