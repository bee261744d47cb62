package config

import (
	"fmt"
	"regexp"
)

// adminOptions returns the keys of what operators get.
func adminOptions() []Option[Config] {
	return []Option[Config]{{
		Key: "admin_port", Flag: "admin-port", Was: []string{"admin.httpPort", "adminPort"},
		Help: `port of statistics and health; "auto" is a free one, "none" or 0 is off`,
		At: func(c *Config) Value {
			at := &c.adminPort
			return optional(at, portOff, automatic(at, portAuto, portValue{at}))
		},
	}, {
		Key:  "admin_hosts",
		Help: "more host names of the admin port: from DNS, or of a reverse proxy",
		At:   func(c *Config) Value { return hostsValue{&c.AdminHosts} },
	}, {
		Key:  "admin_get_controls",
		Help: "lets GET change things, for scripts of the original; else POST only",
		At:   func(c *Config) Value { return boolValue{&c.AdminGetControls} },
	}, {
		Key: "admin_stats_filters", Was: []string{"admin.statsFilters"},
		Help: "regular expressions of the names that stats?filtered=1 leaves out",
		At:   func(c *Config) Value { return patternsValue{&c.Filters} },
	}, {
		Key:  "histograms",
		Help: "measures distributions of latencies and of the age of items",
		At:   func(c *Config) Value { return boolValue{&c.histograms} },
	}, {
		Key: "pprof", Flag: "pprof",
		Help: "profiles at /debug/pprof/ of the admin port, for this machine only",
		At:   func(c *Config) Value { return boolValue{&c.Profiling} },
	}}
}

// hostsValue is a list of names of machines, without ports.
type hostsValue struct{ p *[]string }

func (l hostsValue) Set(v any) error {
	var list []string
	if err := (textsValue{&list}).Set(v); err != nil {
		return errUnwanted
	}
	for _, s := range list {
		var host string
		if err := (hostValue{&host}).Set(s); err != nil {
			return fmt.Errorf("%q is no name of a machine without a port", s)
		}
	}
	*l.p = list
	return nil
}

func (l hostsValue) String() string { return textsValue(l).String() }
func (l hostsValue) Kind() string   { return "hosts" }
func (l hostsValue) Want() string {
	return `a list of names of machines such as ["queues.example.com"]`
}

// patternsValue is a list of regular expressions.
type patternsValue struct{ p *[]string }

func (l patternsValue) Set(v any) error {
	var list []string
	if err := (textsValue{&list}).Set(v); err != nil {
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
func (l patternsValue) Kind() string   { return "patterns" }
func (l patternsValue) Want() string   { return `a list of regular expressions such as ["^jvm_"]` }
