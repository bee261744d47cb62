package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// options are those of the command; a worker gets the same.
type options struct {
	limit     time.Duration
	seed      uint64
	step      uint64
	n         int
	file      string
	skip      string
	overlay   string
	keepGoing bool
	shortens  bool
	trace     bool
	workers   int
	dir       string
}

func (o *options) register() {
	flag.DurationVar(&o.limit, "for", time.Minute, "how long to go on")
	flag.Uint64Var(&o.seed, "seed", 0, "first seed; 0: by the time")
	flag.Uint64Var(&o.step, "step", 1, "from one seed to the next")
	flag.IntVar(&o.n, "n", 1<<40, "seeds at most")
	flag.StringVar(&o.file, "replay", "", "`file` of a script to carry out, n times")
	flag.StringVar(&o.skip, "skip", "", "laws not to look at, separated by commas")
	flag.StringVar(&o.overlay, "overlay", "", "`file` for go build -overlay: a server that is broken on purpose")
	flag.BoolVar(&o.keepGoing, "keep-going", false, "go on after a failure, and shorten none of them")
	flag.BoolVar(&o.shortens, "shorten", true, "make the script of a seed that fails shorter")
	flag.BoolVar(&o.trace, "trace", false, "print what happens to every item, and what the server logs")
	flag.IntVar(&o.workers, "workers", min(runtime.NumCPU(), 4), "processes at the same time")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where to keep scripts that fail")
}

// laws are those not to look at.
func (o *options) laws() map[string]bool {
	skip := make(map[string]bool)
	for _, law := range strings.Split(o.skip, ",") {
		skip[law] = true
	}
	return skip
}

// load returns the i-th script.
func (o *options) load(i uint64) (s Script, err error) {
	if o.file == "" {
		return newScript(o.seed + i*o.step), nil
	}
	b, err := os.ReadFile(o.file)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

func main() {
	if fakeTime {
		worker()
		return
	}
	var o options
	o.register()
	flag.Parse()
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixMilli()) % 1e9
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	failed, err := o.run(ctx, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

// save writes a script to a file of its own and returns the file's name.
func (o *options) save(s Script, what string) (string, error) {
	b, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return "", err
	}
	name := filepath.Join(o.dir, fmt.Sprintf("sim-%d%s.json", s.Seed, what))
	return name, os.WriteFile(name, b, 0o600)
}
