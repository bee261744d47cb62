package config

import (
	"flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
)

var rewrite = flag.Bool("update", false, "write what tests compare with anew")

const (
	docFile     = "../../../../docs/CONFIGURATION.md"
	exampleFile = "../../../../docs/kestrel.example.toml"
)

// Marks in docFile around what is made from the tables of options.
const (
	docBegin = "<!-- begin: made by go test ./cmd/kestrel/internal/config -run TestConfigurationDoc -update -->\n"
	docEnd   = "<!-- end -->\n"
)

// TestConfigurationDoc tests that docs/CONFIGURATION.md says what the tables of options say.
func TestConfigurationDoc(t *testing.T) {
	doc, err := os.ReadFile(docFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), docBegin)
	tables, after, ok2 := strings.Cut(rest, docEnd)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks %q and %q", docFile, docBegin, docEnd)
	}
	want := Tables()
	if *rewrite {
		if err := os.WriteFile(docFile, []byte(before+docBegin+want+docEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if tables != want {
		t.Errorf("%s is out of date; to write it anew: "+
			"go test ./cmd/kestrel/internal/config -run TestConfigurationDoc -update", docFile)
	}
}

// TestExample tests that the example says something about every key, and nothing that a server
// would warn of. Its keys of the server all have their defaults.
func TestExample(t *testing.T) {
	src, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse("kestrel.example.toml", string(src), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: %q", c.Warnings)
	}
	// Lines that are commented out without a space are right as well.
	all := regexp.MustCompile(`(?m)^#([\[a-z])`).ReplaceAllString(string(src), "$1")
	if _, err := Parse("kestrel.example.toml", all, nil); err != nil {
		t.Fatal(err)
	}
	top, err := decode(all)
	if err != nil {
		t.Fatal(err)
	}
	said := maps.Clone(top)
	var blocks []map[string]any
	for _, listener := range top[TableListener].([]map[string]any) {
		maps.Copy(said, listener)
	}
	for _, name := range tableNames() {
		table, _ := top[name].(map[string]any)
		for key, v := range table {
			said[key] = v
			if block, ok := v.(map[string]any); ok {
				blocks = append(blocks, block)
			}
		}
	}
	for _, block := range blocks {
		maps.Copy(said, block)
	}
	for _, key := range allKeys() {
		if _, ok := said[key]; !ok {
			t.Errorf("%s does not say %s", exampleFile, key)
		}
	}
	for _, o := range All(ServerOptions()) {
		if got, want := o.At(c).String(), o.At(Default()).String(); got != want {
			t.Errorf("%s: %s = %s, and the default is %s", exampleFile, o.Key, got, want)
		}
	}
}

// allKeys returns the keys of all options.
func allKeys() []string {
	var keys []string
	for _, names := range [][]keyName{
		namesOf(ServerOptions()), namesOf(QueueOptions()), namesOf(AliasOptions()),
		namesOf(DiscoveryOptions()), namesOf(ZooKeeperOptions()), namesOf(ListenerOptions()), namesOf(UserOptions()), namesOf(TLSOptions()), namesOf(AccountOptions()),
	} {
		for _, n := range names {
			keys = append(keys, n.key)
		}
	}
	return keys
}

// TestOptions tests what the tables of options promise.
func TestOptions(t *testing.T) {
	keys := allKeys()
	slices.Sort(keys)
	keys = slices.DeleteFunc(keys, func(key string) bool {
		// of all and of a listener, or of a listener and of a user
		return key == "max_connections" || key == "memcache_reply_key" || key == "account"
	})
	if unique := slices.Compact(slices.Clone(keys)); len(unique) != len(keys) {
		t.Errorf("a key is there twice: %q", keys)
	}
	c, l := Default(), defaultListener()
	checkOptions(t, ListenerOptions(), &l)
	checkOptions(t, UserOptions(), new(access.User))
	checkOptions(t, AccountOptions(), new(netloop.AccountQuota))
	checkOptions(t, ServerOptions(), c)
	checkOptions(t, QueueOptions(), &c.Engine.Settings.Default)
	checkOptions(t, DiscoveryOptions(), &c.Discovery)
	if got := c.Engine.Settings.Default; got != engine.DefaultQueueOptions() {
		t.Errorf("defaults written and set again = %+v", got)
	}
}

// checkOptions sets every option to the text of its default.
func checkOptions[T any](t *testing.T, groups []Group[T], defaults *T) {
	for _, o := range All(groups) {
		v := o.At(defaults)
		top, err := decode("v = " + v.String())
		if err != nil {
			t.Errorf("%s: default %s is not TOML: %v", o.Key, v, err)
			continue
		}
		if err := v.Set(top["v"]); err != nil {
			t.Errorf("%s: default %s: %v", o.Key, v, err)
		}
		if (o.Help == "") == (o.Idle == "") {
			t.Errorf("%s: want a help or a reason to have no effect", o.Key)
		}
	}
}

func TestConfigHelpIsComplete(t *testing.T) {
	page := Help()
	for _, key := range allKeys() {
		if !strings.Contains(page, " "+key+" ") {
			t.Errorf("kestrel help config lacks %s", key)
		}
	}
}
