package main

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/engine"
)

var update = flag.Bool("update", false, "write what tests compare with anew")

const (
	docFile     = "../../docs/CONFIGURATION.md"
	exampleFile = "../../docs/kestrel.example.toml"
)

// Marks in docFile around what is made from the tables of options.
const (
	docBegin = "<!-- begin: made by go test ./cmd/kestrel -run TestConfigurationDoc -update -->\n"
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
	want := configTables()
	if *update {
		if err := os.WriteFile(docFile, []byte(before+docBegin+want+docEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if tables != want {
		t.Errorf("%s is out of date; to write it anew: "+
			"go test ./cmd/kestrel -run TestConfigurationDoc -update", docFile)
	}
}

// TestExample tests that the example says something about every key, and nothing that a server
// would warn of. Its keys of the server all have their defaults.
func TestExample(t *testing.T) {
	src, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	c, err := parseConfig("kestrel.example.toml", string(src), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.warnings) > 0 {
		t.Errorf("warnings: %q", c.warnings)
	}
	top, err := decode(string(src))
	if err != nil {
		t.Fatal(err)
	}
	said := maps.Clone(top)
	var blocks []map[string]any
	for _, name := range tables() {
		for key, v := range top[name].(map[string]any) {
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
	for _, o := range all(serverOptions()) {
		if got, want := o.at(c).String(), o.at(defaultConfig()).String(); got != want {
			t.Errorf("%s: %s = %s, and the default is %s", exampleFile, o.key, got, want)
		}
	}
}

// allKeys returns the keys of all options.
func allKeys() []string {
	var keys []string
	for _, names := range [][]keyName{
		namesOf(serverOptions()), namesOf(queueOptions()), namesOf(aliasOptions()),
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
	if unique := slices.Compact(slices.Clone(keys)); len(unique) != len(keys) {
		t.Errorf("a key is there twice: %q", keys)
	}
	c := defaultConfig()
	checkOptions(t, serverOptions(), c)
	checkOptions(t, queueOptions(), &c.engine.Settings.Default)
	if got := c.engine.Settings.Default; got != engine.DefaultQueueOptions() {
		t.Errorf("defaults written and set again = %+v", got)
	}
}

// checkOptions sets every option to the text of its default.
func checkOptions[T any](t *testing.T, groups []group[T], defaults *T) {
	for _, o := range all(groups) {
		v := o.at(defaults)
		top, err := decode("v = " + v.String())
		if err != nil {
			t.Errorf("%s: default %s is not TOML: %v", o.key, v, err)
			continue
		}
		if err := v.set(top["v"]); err != nil {
			t.Errorf("%s: default %s: %v", o.key, v, err)
		}
		if (o.help == "") == (o.idle == "") {
			t.Errorf("%s: want a help or a reason to have no effect", o.key)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"", []string{"kestrel serve", "kestrel version"}},
		{"--help", []string{"Usage:\n", "    serve ", "    version ", "    config "}},
		{"serve --help", []string{"Usage:\n", "    --config FILE",
			"    --data-dir path (default ./kestrel-data)",
			"    --memcache-port port|auto|none (default 22133)", "Examples:\n"}},
		{"help config", []string{"[queues.work]", "  memcache_port ", "  * max_items ", "\"16MiB\""}},
		{"config", []string{"[queues.work]"}},
		{"version --help", []string{"kestrel version"}},
	} {
		var out, errs bytes.Buffer
		if code := run(strings.Fields(tt.args), &out, &errs); code != exitOK || errs.Len() > 0 {
			t.Errorf("kestrel %s: exit code %d, %s", tt.args, code, &errs)
		}
		for _, want := range tt.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("kestrel %s lacks %q:\n%s", tt.args, want, &out)
			}
		}
		for line := range strings.Lines(out.String()) {
			if len(line) > 81 {
				t.Errorf("kestrel %s: line of more than 80 columns: %s", tt.args, line)
			}
		}
	}
}

func TestHelpIsComplete(t *testing.T) {
	page := serveHelp()
	for _, f := range serveFlags() {
		if !strings.Contains(page, "--"+f.name+" ") {
			t.Errorf("kestrel serve --help lacks --%s", f.name)
		}
	}
	page = configHelp()
	for _, key := range allKeys() {
		if !strings.Contains(page, " "+key+" ") {
			t.Errorf("kestrel help config lacks %s", key)
		}
	}
}
