package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// trace is a stack of calls that samples have seen, the innermost first.
type trace struct {
	time   time.Duration
	frames []string
}

// parseTraces parses what `go tool pprof -traces` prints: stacks between lines of dashes, of which
// the first line begins with the time.
func parseTraces(text string) (traces []trace, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		words := strings.Fields(strings.TrimSuffix(line, " (inline)"))
		switch {
		case strings.HasPrefix(line, "-----"):
			traces = append(traces, trace{})
		case len(traces) == 0 || len(words) == 0: // the head
		case len(traces[len(traces)-1].frames) == 0:
			if len(words) < 2 {
				return nil, fmt.Errorf("profile: %q is not a time and a function", line)
			}
			d, err := time.ParseDuration(words[0])
			if err != nil {
				return nil, fmt.Errorf("profile: %q does not begin with a time", line)
			}
			traces[len(traces)-1] = trace{d, []string{strings.Join(words[1:], " ")}}
		default:
			last := &traces[len(traces)-1]
			last.frames = append(last.frames, strings.Join(words, " "))
		}
	}
	traces = slices.DeleteFunc(traces, func(t trace) bool { return t.time == 0 })
	if len(traces) == 0 {
		return nil, fmt.Errorf("profile: there is no sample in it")
	}
	return traces, nil
}

// purpose is what a sample was for, a row of the table.
type purpose struct {
	name  string
	whole bool     // a text in any frame counts
	in    []string // texts in the names of functions
}

const project = "github.com/kestrelmq/kestrel/"

// purposes are the rows. A sample is for the first purpose with whole that any of its frames names. Else it is for the
// one that its innermost frame with a purpose names, or else for the last.
func purposes() []purpose {
	return []purpose{
		{"garbage collection", true, []string{"runtime.gcBgMarkWorker", "runtime.gcAssist", "runtime.bgsweep",
			"runtime.bgscavenge", "runtime.gcStart", "runtime.(*gcControllerState)"}},
		{"in the background: segments, expiry, syncs", true, []string{"engine.(*Engine).background"}},
		{"read requests (recv)", false, []string{"netloop.receiveNow"}},
		{"send replies (send)", false, []string{"netloop.sendNow"}},
		{"wait for events (epoll)", false, []string{"netloop.(*epollPoller).wait", "netloop.(*watched).poll",
			"netpoll.(*Poller).Polling"}},
		{"wake an event loop (eventfd)", false, []string{"netloop.(*bell).ring", "netpoll.(*Poller).Trigger"}},
		{"write the journal (pwrite)", false, []string{"os.(*File).WriteAt"}},
		{"sync the journal (fdatasync)", false, []string{"unix.Fdatasync", "os.(*File).Sync"}},
		{"decode requests, encode replies", false, []string{project + "codec/"}},
		{"queues, records and checksums", false, []string{project + "engine.", project + "segment.", "xxhash"}},
		{"sessions", false, []string{project + "netloop"}},
		{"Go runtime, the rest", false, nil},
	}
}

// column is the samples of one load by purpose.
type column struct {
	name  string
	times []time.Duration // by index in purposes
	total time.Duration
	spent
}

// spent is what a load took, the profile included.
type spent struct {
	requests int64
	cpu      time.Duration // of the server
	wall     time.Duration
}

// newColumn sorts samples.
func newColumn(name string, traces []trace) column {
	rows := purposes()
	c := column{name: name, times: make([]time.Duration, len(rows))}
	for _, t := range traces {
		c.times[t.purpose(rows)] += t.time
		c.total += t.time
	}
	return c
}

// purpose returns the index of what the samples of a stack were for.
func (t *trace) purpose(rows []purpose) int {
	for i, row := range rows {
		if row.whole && slices.ContainsFunc(t.frames, row.namedBy) {
			return i
		}
	}
	for _, frame := range t.frames {
		for i, row := range rows {
			if !row.whole && row.namedBy(frame) {
				return i
			}
		}
	}
	return len(rows) - 1
}

// namedBy reports whether a frame names the purpose.
func (p *purpose) namedBy(frame string) bool {
	return slices.ContainsFunc(p.in, func(text string) bool { return strings.Contains(frame, text) })
}

// table prints the shares of each column, in percent.
func table(columns []column) string {
	var b strings.Builder
	b.WriteString("| share of the server's processor time, % |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(columns)) + "\n| *all of it, µs a request* |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %.3g |", float64(c.cpu.Nanoseconds())/1e3/float64(c.requests))
	}
	b.WriteString("\n| *all of it, % of the time* |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %.0f |", 100*c.cpu.Seconds()/c.wall.Seconds())
	}
	b.WriteString("\n")
	for i, row := range purposes() {
		some := false
		line := "| " + row.name + " |"
		for _, c := range columns {
			share := 100 * c.times[i].Seconds() / c.total.Seconds()
			some = some || c.times[i] > 0
			line += fmt.Sprintf(" %.1f |", share)
		}
		if some {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
