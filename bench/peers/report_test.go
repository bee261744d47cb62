package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/bench/peer"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// at returns a sample of 100 operations that took the server so much CPU time, and so long, in µs.
func at(cpu, wall int) *sample {
	return &sample{
		operations: 100, wall: time.Duration(wall) * time.Microsecond,
		serverCPU: time.Duration(cpu) * time.Microsecond, generatorCPU: 10 * time.Microsecond,
		p50: 20 * time.Microsecond, p99: 30 * time.Microsecond, p999: 40 * time.Microsecond,
		resident: 5 << 20, perClient: 3 << 10,
	}
}

// named returns a server of which only the name matters.
func named(name string) server { return server{Server: peer.Server{Name: name}} }

func testHeader() header {
	return header{
		date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		machine: figures.Machine{CPU: "Some(R) CPU @ 2GHz", Cores: 2, Kernel: "6.1",
			MemoryBytes: 3 << 30},
		compiler: "go1.26", options: "3 rounds",
		servers: []serverHeader{{"memcached", "memcached 1.6", "memcached -p PORT"}},
	}
}

func TestWriteReport(t *testing.T) {
	one := benchCase{pageCache, set, 64, 16, 1, 1}
	blocked := benchCase{pageCache, crowd, 64, 100, 1, 1}
	synced := benchCase{syncAlways, set, 64, 100, 1, 1000}
	plan := []planned{
		{one, []server{named("memcached"), named("kestrel")}},
		{blocked, []server{named("kestrel")}},
		{synced, []server{named("redis-always")}},
	}
	all := results{
		one.String(): {
			"memcached": {at(400, 400), at(400, 500), at(500, 500)},
			"kestrel":   {at(200, 200), nil, at(200, 250)},
		},
		blocked.String(): {"kestrel": {at(100, 1000)}},
		synced.String():  {"redis-always": {nil, nil, nil}},
	}
	const want = `# Side by side, 2 January 2026 03:04 UTC

- machine: Some(R) CPU @ 2GHz, 2 processors, 3.00 GiB, Linux 6.1; load generator built with go1.26
- options: 3 rounds
- memcached: memcached 1.6; ` + "`memcached -p PORT`" + `

## Goals

| case | figure | of | to | goal | measured | reached |
|---|---|---|---|--:|--:|---|
| page-cache SET 64B c=16 P=1 | CPU | kestrel | memcached | ≤ 1.00 | 0.450 (0.400–0.500) | yes |

## page-cache

` + tableHead + `| SET 64B c=16 P=1 | memcached | 4.00 (4.00–5.00) | 1 | 200 (200–250) | 1 |` +
		` 20.0 | 30.0 | 1 | 40.0 | 100 | 5.00 | – | 0.100 (0.100–0.100) |
|  | kestrel | 2.00 (2.00–2.00) | 0.450 (0.400–0.500) | 450 (400–500) | 2.00 (2.00–2.00) |` +
		` 20.0 | 30.0 | 1.00 (1.00–1.00) | 40.0 | 90.0 | 5.00 | – | 0.100 (0.100–0.100) |
| CROWD 64B c=100 P=1 | kestrel | 1.00 | 1 | 100 | 1 | 20.0 | 30.0 | 1 | 40.0 | 10.0 | 5.00 | 3.00 | 0.100 |

## sync-always

` + tableHead + `| SET 64B c=100 P=1 Q=1000 | redis-always | – | 1 | – | 1 | – | – | 1 | – | – | – | – | – |
` + legend
	var b strings.Builder
	if err := writeReport(&b, testHeader(), plan, all); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != want {
		t.Errorf("report:\n%s\nwant:\n%s", got, want)
	}
}

// A report of an interrupted run lacks cases and rounds, and is printed all the same.
func TestWriteReportOfNothing(t *testing.T) {
	plan := []planned{{benchCase{pageCache, get, 64, 1, 1, 1}, []server{named("a"), named("b")}}}
	var b strings.Builder
	if err := writeReport(&b, header{}, plan, results{}); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^\|  \| b \|( – \|){12}$`).MatchString(b.String()) {
		t.Errorf("report:\n%s\nwant a row of nothing for b", b.String())
	}
}

// TestGoals checks that every goal is about cases and servers that exist. A figure on the wrong side of a bound must
// not count as reached.
func TestGoals(t *testing.T) {
	o, err := parseOptions(nil, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	plan := o.plan(servers())
	all := make(results)
	takesPart := make(map[string]bool)
	for _, p := range plan {
		all[p.String()] = make(map[string][]*sample)
		for _, s := range p.servers {
			takesPart[p.String()+s.Name] = true
			all[p.String()][s.Name] = []*sample{at(100, 100)}
			if strings.HasPrefix(s.Name, "kestrel") {
				all[p.String()][s.Name] = []*sample{at(300, 500)}
			}
		}
	}
	goals := goals()
	for _, g := range goals {
		for i, c := range g.cases {
			if !takesPart[c.String()+g.own] {
				t.Errorf("%s does not take part in%s", g.own, c)
			}
			if g.peers != nil {
				c = g.peers[i]
			}
			if g.peer != "" && !takesPart[c.String()+g.peer] {
				t.Errorf("%s does not take part in%s", g.peer, c)
			}
		}
	}
	var b strings.Builder
	writeGoals(&b, plan, all)
	for _, want := range []string{
		"| page-cache SET 64B c=16 P=1 | CPU | kestrel | memcached | ≤ 1.00 | 3.00 | **no** |",
		"| page-cache SET 64B c=16 P=32 | rate | kestrel | redis-everysec | ≥ 2.50 | 0.200 | **no** |",
		"| sync-always SET 64B c=100 P=1 Q=1000 | rate | kestrel-always | kestrel-always, SET 64B c=100 P=1 |" +
			" ≥ 0.900 | 1.00 | yes |",
		"| page-cache CROWD 64B c=10000 P=1 | KiB/conn | kestrel | – | ≤ 8.00 | 3.00 | yes |",
	} {
		if !strings.Contains(b.String(), want+"\n") {
			t.Errorf("goals:\n%s\nwant the row %s", b.String(), want)
		}
	}
}

func TestSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	var said strings.Builder
	if err := testHeader().save(dir, "the report", &said); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "2026-01-02-some-r-cpu-2ghz-2cpu.md")
	if text, err := os.ReadFile(name); err != nil || string(text) != "the report" {
		t.Errorf("%s holds %q, %v", name, text, err)
	}
	if !strings.Contains(said.String(), name) {
		t.Errorf("it said %q, want the name", said.String())
	}
}
