package docs

import (
	"regexp"
	"testing"
)

// TestChangelogVersion tests that the newest section of the changelog is that of the version that the program prints, and
// that sections have numbers.
func TestChangelogVersion(t *testing.T) {
	version := regexp.MustCompile(`(?m)^const Version = "(\d+\.\d+\.\d+)"$`).FindStringSubmatch(read(t, "../netloop/options.go"))
	if version == nil {
		t.Fatal("netloop/options.go says no version")
	}
	sections := regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(read(t, "CHANGELOG.md"), -1)
	numbered := regexp.MustCompile(`^\d+\.\d+\.\d+(, \d{4}-\d{2}-\d{2})?$`)
	if len(sections) == 0 {
		t.Fatal("the changelog has no sections")
	}
	for i, s := range sections {
		if !numbered.MatchString(s[1]) && s[1] != "Before" {
			t.Errorf("section %q has no number", s[1])
		}
		if i == 0 && s[1][:min(len(s[1]), len(version[1]))] != version[1] {
			t.Errorf("the newest section is %q, and the program prints %s", s[1], version[1])
		}
	}
}
