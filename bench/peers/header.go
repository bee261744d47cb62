package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
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
		h.servers = append(h.servers, serverHeader{s.name, serverVersion(s), commandLine(o, s)})
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

// commandLine returns how a server is started, with a placeholder for what changes.
func commandLine(o *options, s server) string {
	dir, err := os.MkdirTemp(o.dir, "peers-header-")
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(dir)
	const port = 59999 // stands for any
	args, err := s.args(o, s, dir, port)
	if err != nil {
		return err.Error()
	}
	for i, arg := range args {
		if arg == "" {
			args[i] = `""`
		}
	}
	line := strings.Join(append([]string{filepath.Base(s.program)}, args...), " ")
	return strings.NewReplacer(dir, "DIR", fmt.Sprint(port), "PORT").Replace(line)
}

// serverVersion returns the first line that the server's version command prints.
func serverVersion(s server) string {
	out, err := exec.Command(s.program, s.version).Output()
	if err != nil {
		return "version unknown: " + err.Error()
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

// used returns the servers that the plan has work for.
func used(servers []server, plan []planned) (some []server) {
	names := make(map[string]bool)
	for _, p := range plan {
		for _, s := range p.servers {
			names[s.name] = true
		}
	}
	for _, s := range servers {
		if names[s.name] {
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
