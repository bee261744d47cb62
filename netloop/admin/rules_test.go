package admin

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
)

const rulesDir = "../../docs/operations"

// TestAlertRules tests that the rules of docs/operations use only what /metrics exports.
func TestAlertRules(t *testing.T) {
	rules, err := os.ReadFile(rulesDir + "/kestrel.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	tt := start(t, Options{Progress: new(engine.Progress)}, netloop.Options{}, defaults())
	tt.talk("set q 0 0 3\r\nabc\r\nget q\r\n")
	families := tt.scrape("/metrics")
	metric := regexp.MustCompile(`\bkestrel_[a-z_]+`)
	exprs := regexp.MustCompile(`(?m)^ +expr: (.+)$`).FindAllStringSubmatch(string(rules), -1)
	if n := strings.Count(string(rules), "- alert: "); n < 14 || n != len(exprs) {
		t.Errorf("%d alerts have %d expressions", n, len(exprs))
	}
	for _, expr := range exprs {
		for _, name := range metric.FindAllString(expr[1], -1) {
			if families[name] == nil && families[strings.TrimSuffix(name, "_bucket")] == nil {
				t.Errorf("%s: /metrics does not tell %s", expr[1], name)
			}
		}
	}
}

// TestAlertRulesPromtool has Prometheus' own tool check and test the rules, if it is installed.
func TestAlertRulesPromtool(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: prometheus)")
	}
	for _, args := range [][]string{
		{"check", "rules", "kestrel.rules.yml"}, {"test", "rules", "kestrel.rules.test.yml"},
	} {
		cmd := exec.Command(tool, args...)
		cmd.Dir = rulesDir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
