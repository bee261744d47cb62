package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// newPageRun returns a run as text.
func newPageRun(runs []*figures.Run, r *figures.Run) pageRun {
	p := pageRun{Run: r, Title: runName(runs, r), Doubts: doubts(r)}
	for _, ph := range r.Phases {
		name, asked := ph.Name, ""
		if ph.Target > 0 {
			asked = figures.Thousands(int64(ph.Target + 0.5))
		}
		row := func(kind string, rate float64, l *figures.Latency) {
			p.Rows = append(p.Rows, pageRow{
				Phase: name, Kind: kind, Count: figures.Thousands(l.Count),
				Rate: figures.Thousands(int64(rate + 0.5)), Asked: asked, MiB: mebibytes(rate * payloadOf(r, ph, kind)),
				P50: figures.Duration(l.P50), P90: figures.Duration(l.P90), P99: figures.Duration(l.P99),
				P999: figures.Duration(l.P999), P9999: figures.Duration(l.P9999),
				Max: figures.Duration(l.Max),
			})
			name, asked = "", ""
		}
		for _, op := range ph.Ops {
			if op.Latency != nil {
				row(op.Name, op.Rate, op.Latency)
			}
		}
		if ph.Delivery != nil && ph.Wall > 0 {
			row("delivery", float64(ph.Delivery.Count)/(float64(ph.Wall)/1e9), ph.Delivery)
		}
	}
	p.Facts = facts(r)
	return p
}

// mebibytes prints bytes a second in MiB, nothing for none.
func mebibytes(bytes float64) string {
	if bytes == 0 {
		return ""
	}
	return strconv.FormatFloat(bytes/(1<<20), 'f', 2, 64)
}

// facts returns what a reader needs to judge a run, and to repeat it.
func facts(r *figures.Run) (list []fact) {
	add := func(name, format string, args ...any) {
		list = append(list, fact{name, fmt.Sprintf(format, args...)})
	}
	add("Scenario", "%s, %s, seed %d", r.Scenario, r.Started.Format("2 January 2006 15:04:05 MST"),
		r.Seed)
	add("Server", "%s over %s at %s", orUnknown(r.Versions.Server), r.Server.Protocol,
		r.Server.Address)
	if r.Server.Command != "" {
		add("Started as", "%s", r.Server.Command)
	}
	add("Machine", "%s", r.Machine)
	add("Generator", "kestrel %s (%s), %s", r.Versions.Generator, r.Versions.Revision, r.Versions.Go)
	for _, p := range r.Phases {
		if n := p.Requests(); n > 0 {
			add("Cost of "+p.Name, "%s", costOf(p, n))
		}
	}
	if c := r.Checked; c.Verified {
		add("Checked", "%s items put, %s got, %s lost, %s delivered again", figures.Thousands(c.Put),
			figures.Thousands(c.Got), figures.Thousands(c.Lost), figures.Thousands(c.Redelivered))
		if c.Early+c.Twice > 0 {
			add("Broken", "%s items came before their time, %s after their end", figures.Thousands(c.Early),
				figures.Thousands(c.Twice))
		}
	} else {
		add("Checked", "replies only: items had no identity")
	}
	var options []string
	for _, name := range slices.Sorted(maps.Keys(r.Options)) {
		options = append(options, name+"="+r.Options[name])
	}
	add("Options", "%s", strings.Join(options, " "))
	return list
}

// doubts returns the notes of a run. What is noted of several phases stands there once, with its figures for each.
func doubts(r *figures.Run) (list []string) {
	said := make(map[string]int) // place in list, by what is said
	for _, note := range r.Notes {
		phase, text, ok := strings.Cut(note, ": ")
		figure, rest, hasFigure := strings.Cut(text, " ")
		isPhase := slices.ContainsFunc(r.Phases, func(p *figures.Phase) bool { return p.Name == phase })
		if !ok || !isPhase || !hasFigure || strings.Trim(figure, "0123456789,") != "" {
			list = append(list, note)
			continue
		}
		if at, ok := said[rest]; ok {
			before := strings.TrimSuffix(list[at], " "+rest)
			list[at] = before + "; " + phase + ": " + figure + " " + rest
			continue
		}
		said[rest] = len(list)
		list = append(list, note)
	}
	return list
}

// costOf says what n requests of a phase cost on both sides.
func costOf(p *figures.Phase, n int64) string {
	text := fmt.Sprintf("generator %s of processor time a request, its threads busy %.0f %%",
		figures.Duration(p.Generator.ThreadCPU/n), 100*p.Generator.Busy)
	if s := p.Server; s != nil {
		text += fmt.Sprintf("; server %s a request, %s resident at most", figures.Duration(s.PerOpCPU),
			figures.Bytes(s.Peak))
	}
	return text
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
