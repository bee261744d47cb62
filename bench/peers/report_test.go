package main

import (
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
)

func TestWriteReport(t *testing.T) {
	at := func(cpu, wall int) *sample { // µs
		return &sample{
			operations: 100, wall: time.Duration(wall) * time.Microsecond,
			serverCPU: time.Duration(cpu) * time.Microsecond, generatorCPU: 10 * time.Microsecond,
			p50: 20 * time.Microsecond, p99: 30 * time.Microsecond, resident: 5 << 20,
		}
	}
	set := benchCase{pageCache, loadtest.Set, 16, 1}
	synced := benchCase{syncAlways, loadtest.Set, 100, 1}
	plan := []planned{
		{set, []server{{name: "memcached"}, {name: "kestrel"}}},
		{synced, []server{{name: "redis-always"}}},
	}
	all := results{
		set.String(): {
			"memcached": {at(400, 400), at(400, 500), at(500, 500)},
			"kestrel":   {at(200, 200), nil, at(200, 250)},
		},
		synced.String(): {"redis-always": {nil, nil, nil}},
	}
	h := header{
		date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), cpu: "some CPU", cores: 2, kernel: "6.1",
		compiler: "go1.26", options: "3 rounds",
		servers: []serverHeader{{"memcached", "memcached 1.6", "memcached -p PORT"}},
	}
	const want = `# Side by side, 2 January 2026 03:04 UTC

- machine: some CPU, 2 cores, Linux 6.1; load generator built with go1.26
- options: 3 rounds
- memcached: memcached 1.6; ` + "`memcached -p PORT`" + `

## page-cache

` + tableHead + `| SET c=16 P=1 | memcached | 4.00 (4.00–5.00) | 1 | 200 (200–250) | 1 |` +
		` 20.0 | 30.0 | 100 | 5.00 | 0.100 (0.100–0.100) |
|  | kestrel | 2.00 (2.00–2.00) | 0.450 (0.400–0.500) | 450 (400–500) | 2.00 (2.00–2.00) |` +
		` 20.0 | 30.0 | 90.0 | 5.00 | 0.100 (0.100–0.100) |

## sync-always

` + tableHead + `| SET c=100 P=1 | redis-always | – | 1 | – | 1 | – | – | – | – | – |
` + legend
	var b strings.Builder
	if err := writeReport(&b, h, plan, all); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != want {
		t.Errorf("report:\n%s\nwant:\n%s", got, want)
	}
}

// A report of an interrupted run lacks cases and rounds, and is printed all the same.
func TestWriteReportOfNothing(t *testing.T) {
	plan := []planned{{benchCase{pageCache, loadtest.Get, 1, 1}, []server{{name: "a"}, {name: "b"}}}}
	var b strings.Builder
	if err := writeReport(&b, header{}, plan, results{}); err != nil {
		t.Fatal(err)
	}
	if want := "|  | b | – | – | – | – | – | – | – | – | – |\n"; !strings.Contains(b.String(), want) {
		t.Errorf("report:\n%s\nwant the row %s", b.String(), want)
	}
}
