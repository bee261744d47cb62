package main

import (
	"fmt"
	"regexp"
)

// adminOptions returns the keys of what operators get.
func adminOptions() []option[config] {
	return []option[config]{{
		key: "admin_port", flag: "admin-port", was: []string{"admin.httpPort", "adminPort"},
		help: `port of statistics and health; "auto" is a free one, "none" or 0 is off`,
		at: func(c *config) value {
			at := &c.adminPort
			return optional(at, portOff, automatic(at, portAuto, portValue{at}))
		},
	}, {
		key: "admin_stats_filters", was: []string{"admin.statsFilters"},
		help: "names that stats?filtered=1 leaves out, as regular expressions",
		at:   func(c *config) value { return patternsValue{&c.filters} },
	}, {
		key:  "histograms",
		help: "measures latencies, and ages of items, as distributions",
		at:   func(c *config) value { return boolValue{&c.histograms} },
	}, {
		key: "pprof", flag: "pprof",
		help: "profiles at /debug/pprof/ of the admin port, for this machine only",
		at:   func(c *config) value { return boolValue{&c.profiling} },
	}}
}

// patternsValue is a list of regular expressions.
type patternsValue struct{ p *[]string }

func (l patternsValue) set(v any) error {
	var list []string
	if err := (textsValue{&list}).set(v); err != nil {
		return errUnwanted
	}
	for _, s := range list {
		if _, err := regexp.Compile(s); err != nil {
			return fmt.Errorf("%q is no regular expression: %w", s, err)
		}
	}
	*l.p = list
	return nil
}

func (l patternsValue) String() string { return textsValue(l).String() }
func (l patternsValue) kind() string   { return "patterns" }
func (l patternsValue) want() string   { return `a list of regular expressions such as ["^jvm_"]` }
