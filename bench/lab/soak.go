package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// soakTrial runs a server under a steady load of all protocols, with clients that come and go. It
// runs for as many seconds as it has cycles, and samples what a leak would make grow. At the end
// every lane compares what is there with what it put.
func soakTrial(ctx context.Context, t *trial) error {
	lanes := standardLanes(t)
	for _, l := range lanes {
		l.pause, l.forget = 5*time.Millisecond, true
	}
	config := filepath.Join(t.dir, "lab.toml")
	if err := os.WriteFile(config, []byte(configOf(lanes)), 0o600); err != nil {
		return err
	}
	how := launch{binary: t.binary, dir: t.dir, args: []string{
		"--config", "lab.toml", "--admin-port", "auto", "--pprof",
	}}
	s, err := how.start(ctx)
	if err != nil {
		return err
	}
	defer func() { s.kill() }()
	if err := makeQueues(t, s, lanes); err != nil {
		return err
	}
	length := time.Duration(t.cycles) * time.Second
	var samples []sample
	var sampleErr error
	sampling, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { samples, sampleErr = sampleEvery(sampling, s, length/100) })
	beside.Go(func() { comeAndGo(sampling, s) })
	err = runLanes(t, s, lanes, 0, until{after: length}, func() {
		stop()
		beside.Wait()
		s.kill()
		t.counts.trials.Add(int64(len(samples)))
	})
	if err = errors.Join(err, sampleErr); err != nil {
		return err
	}
	printSamples(t.log, samples)
	judgeSamples(t, samples)
	if s, err = startOrViolate(ctx, t, how); s == nil || err != nil {
		return err
	}
	v, err := inspectAll(t, s, lanes, func(l *lane) int { return l.ackedBefore(time.Now()) })
	if err != nil {
		return err
	}
	return v.c.end()
}

// sample is what a server has in use at some time.
type sample struct {
	after       time.Duration
	memory      int64 // resident, bytes
	descriptors int
	goroutines  int
}

var goroutineTotal = regexp.MustCompile(`goroutine profile: total (\d+)`)

// sampleEvery takes samples until ctx is done.
func sampleEvery(
	ctx context.Context, s *server, every time.Duration,
) (samples []sample, err error) {
	line, err := s.awaitLog("admin port is open")
	if err != nil {
		return nil, err
	}
	started := time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return samples, nil
		case <-tick.C:
		}
		at := sample{after: time.Since(started).Round(time.Second / 10)}
		if at.memory, err = resident(s.pid); err != nil {
			return samples, err
		}
		if at.descriptors, err = descriptorsOf(s.pid); err != nil {
			return samples, err
		}
		if at.goroutines, err = goroutines(fmt.Sprint(line["address"])); err != nil {
			return samples, err
		}
		samples = append(samples, at)
	}
}

// goroutines asks a server how many goroutines it has.
func goroutines(admin string) (int, error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Get("http://" + admin + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	if err != nil {
		return 0, err
	}
	m := goroutineTotal.FindSubmatch(b)
	if m == nil {
		return 0, fmt.Errorf("%s has no number of goroutines: %.100q", admin, b)
	}
	return strconv.Atoi(string(m[1]))
}

// comeAndGo connects, uses and leaves, in every way, until ctx is done.
func comeAndGo(ctx context.Context, s *server) {
	for ctx.Err() == nil {
		exchange(s, "memcache", []byte("set passing 0 0 4\r\nitem\r\nget passing/open\r\n"), 64)
		exchange(s, "memcache", []byte("get passing\r\nget nothing/t=1000\r\n"), 7)
		exchange(s, "text", []byte("put passing:\nitem\n\nget passing\nflush passing\n"), 64)
		exchange(s, "memcache", []byte("delete passing\r\nnonsense\r\n"), 64)
	}
}

// judgeSamples compares the second quarter, when everything has been in use, with the last one.
func judgeSamples(t *trial, samples []sample) {
	n := len(samples)
	if n < 20 {
		t.violate("only %d samples were taken", n)
		return
	}
	for _, what := range []struct {
		name  string
		of    func(sample) int64
		slack int64 // besides a tenth
	}{
		{"resident bytes", func(s sample) int64 { return s.memory }, 4 << 20},
		{"descriptors", func(s sample) int64 { return int64(s.descriptors) }, 3},
		{"goroutines", func(s sample) int64 { return int64(s.goroutines) }, 3},
	} {
		early, late := median(samples[n/4:n/2], what.of), median(samples[3*n/4:], what.of)
		if late > early+early/10+what.slack {
			t.violate("%s grow: %d in the second quarter, %d in the last", what.name, early, late)
		}
	}
}

func median(samples []sample, of func(sample) int64) int64 {
	var all []int64
	for _, s := range samples {
		all = append(all, of(s))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// printSamples plots memory over time, and lists the rest.
func printSamples(w io.Writer, samples []sample) {
	most := int64(1)
	for _, s := range samples {
		most = max(most, s.memory)
	}
	for i := 0; i < len(samples); i += max(len(samples)/20, 1) {
		s := samples[i]
		fmt.Fprintf(w, "%8v %6.1f MiB %4d descriptors %4d goroutines |%s\n", s.after,
			float64(s.memory)/(1<<20), s.descriptors, s.goroutines,
			strings.Repeat("#", int(40*s.memory/most)))
	}
}
