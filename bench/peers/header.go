package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// header is what a reader needs to judge the numbers, and to repeat them.
type header struct {
	date     time.Time
	machine  figures.Machine
	compiler string // of the load generator
	options  string
	servers  []serverHeader
}

type serverHeader struct {
	name, version, command string
}

// newHeader asks the system, and each server for its version.
func newHeader(o *options, servers []server) header {
	h := header{
		date:     time.Now(),
		machine:  figures.ThisMachine(),
		compiler: runtime.Version(),
		options: fmt.Sprintf("%d rounds, window %v, warm-up %v, "+
			"server on processor %d, generator on %v",
			o.rounds, o.window, o.warmup, o.serverCPU, o.loadCPUs),
	}
	for _, s := range servers {
		h.servers = append(h.servers, serverHeader{s.Name, s.Version(), o.setup.CommandLine(s.Server)})
	}
	return h
}

func (h header) write(w io.Writer) {
	fmt.Fprintf(w, "# Side by side, %s\n\n", h.date.Format("2 January 2006 15:04 MST"))
	fmt.Fprintf(w, "- machine: %s; load generator built with %s\n", h.machine, h.compiler)
	fmt.Fprintf(w, "- options: %s\n", h.options)
	for _, s := range h.servers {
		fmt.Fprintf(w, "- %s: %s; `%s`\n", s.name, s.version, s.command)
	}
}

// used returns the servers that the plan has work for.
func used(servers []server, plan []planned) (some []server) {
	names := make(map[string]bool)
	for _, p := range plan {
		for _, s := range p.servers {
			names[s.Name] = true
		}
	}
	for _, s := range servers {
		if names[s.Name] {
			some = append(some, s)
		}
	}
	return some
}

// save writes the report to a file of dir that is named after the day and the machine.
func (h header) save(dir, report string, stderr io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Join(dir, fmt.Sprintf("%s-%s.md", h.date.Format("2006-01-02"),
		h.machine.FileName()))
	if err := os.WriteFile(name, []byte(report), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "peers: wrote %s\n", name)
	return nil
}
