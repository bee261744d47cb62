package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	backlogItem  = 1000 // bytes of an item
	backlogItems = 400
)

// spilled starts a server with a queue most of which is on disk: items 1 to backlogItems.
func spilled(ctx context.Context, t *trial, dir string) (s *server, a *asked, err error) {
	config := "segment_size = \"64KiB\"\njournal_size = \"1MiB\"\n" +
		"[queues.limit]\nmax_memory_size = \"8KiB\"\n"
	if err := os.WriteFile(filepath.Join(dir, "lab.toml"), []byte(config), 0o600); err != nil {
		return nil, nil, err
	}
	how := launch{binary: t.binary, dir: dir, args: []string{"--config", "lab.toml"}}
	if s, err = how.start(ctx); err != nil {
		return nil, nil, err
	}
	if a, err = ask(s, backlogItem); err != nil {
		return s, nil, err
	}
	next, refusal, err := a.putUntilRefused(t, 1, backlogItems)
	if err != nil || refusal != "" {
		return s, a, fmt.Errorf("put item %d: %q, %w", next, refusal, err)
	}
	return s, a, nil
}

// cutBacklog is the case of a backlog that is cut while the server runs: reads find less than was
// written. The server serves what is there, then answers with errors, and harms nothing else.
func cutBacklog(ctx context.Context, t *trial, dir string) error {
	s, a, err := spilled(ctx, t, dir)
	defer func() { s.kill() }()
	if err != nil {
		return err
	}
	backlogs := filepath.Join(dir, "data", "backlog")
	entries, err := os.ReadDir(backlogs)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return err
		}
		if err := os.Truncate(filepath.Join(backlogs, e.Name()), info.Size()/2); err != nil {
			return err
		}
	}
	next, refusal, err := a.takeUntilRefused(t, 1, backlogItems)
	if err != nil {
		return err
	}
	if !strings.Contains(refusal, "backlog cannot be read") || next < 2 {
		t.violate("with its backlog cut the queue served %d items and said %q", next-1, refusal)
		return nil
	}
	if _, err := s.awaitLog("backlog could not be read: fetches from the queue fail"); err != nil {
		t.violate("a cut backlog: %v", err)
	}
	expectService(t, s, "beside a cut backlog")
	t.counts.checks.Add(1)
	return nil
}

// unreadableBacklog is the case of a disk that cannot read for a while. Clients get errors meanwhile. When it can read
// again, everything comes, in order.
func unreadableBacklog(ctx context.Context, t *trial, dir string) error {
	if err := haveStrace(); err != nil {
		t.skip("%v", err)
		return nil
	}
	s, a, err := spilled(ctx, t, dir)
	defer func() { s.kill() }()
	if err != nil {
		return err
	}
	detach, err := sysFault{inject: "pread64:error=EIO"}.attach(ctx, s, "/dev/null")
	if err != nil {
		return err
	}
	next, refusal, err := a.takeUntilRefused(t, 1, backlogItems)
	if err != nil {
		return err
	}
	if !strings.Contains(refusal, "backlog cannot be read") {
		t.violate("with a disk that cannot be read the queue served %d items and said %q", next-1,
			refusal)
		return nil
	}
	expectService(t, s, "beside a disk that cannot be read")
	detach()
	return expectReadAgain(t, s, next, backlogItem, backlogItems)
}

// readingCases returns the cases that are tried with each way of reading a backlog back.
func readingCases() (cases []limitCase) {
	for _, way := range readings() {
		cases = append(cases,
			limitCase{"backlog cut while it is read, " + way, cutWhileRead(way)},
			limitCase{"disk fails below a backlog, " + way, failWhileRead(way)})
	}
	return cases
}

// passing returns the case of a fault that comes and goes under load, three times. A function begins it, and returns
// the function that ends it. Puts are refused while it lasts and accepted behind it; what was acknowledged is there,
// whatever came in between. If the fault is of every call, the first put that needs one must be refused.
func passing(
	every bool, begin func(ctx context.Context, s *server, round int) (end func() error, err error),
) func(context.Context, *trial, string) error {
	return func(ctx context.Context, t *trial, dir string) error {
		if err := haveStrace(); err != nil {
			t.skip("%v", err)
			return nil
		}
		s, a, err := spilled(ctx, t, dir)
		defer func() { s.kill() }()
		if err != nil {
			return err
		}
		next := backlogItems + 1
		unknown := make(map[int]bool) // items put again: of the first put nothing is known
		for round := range 3 {
			end, err := begin(ctx, s, round)
			if err != nil {
				return err
			}
			first, refusal := next, ""
			if next, refusal, err = a.putUntilRefused(t, first, 5000); err != nil {
				return err
			}
			if n := next - first; refusal == "" || every && n > 0 {
				t.violate("%d puts were accepted although the disk fails", n)
				return nil
			}
			t.counts.refusals.Add(1)
			unknown[next] = true
			if err := end(); err != nil {
				return err
			}
			if next, err = a.putAgain(t, next); err != nil || len(t.violations()) > 0 {
				return err
			}
		}
		return expectAfterKill(ctx, t, s, dir, next, unknown)
	}
}

// expectAfterKill kills a server, and has the next one deliver the items before next.
func expectAfterKill(
	ctx context.Context, t *trial, s *server, dir string, next int, unknown map[int]bool,
) error {
	if !s.running() {
		t.violate("the server has ended: %s", s.lastWords())
	}
	s.kill()
	s, err := startOrViolate(ctx, t, launch{
		binary: t.binary, dir: dir, args: []string{"--config", "lab.toml"},
	})
	if s == nil || err != nil {
		return err
	}
	defer s.kill()
	a, err := ask(s, backlogItem)
	if err != nil {
		return err
	}
	t.counts.checks.Add(1)
	return a.expectAll(t, next, unknown)
}

// limitFiles bounds the length of the files that a server writes, which makes a write short, and the next fail. It
// meets the journal in the middle of a segment, and backlogs. Segments have their length already: what counts is where
// it writes.
func limitFiles(_ context.Context, s *server, round int) (end func() error, err error) {
	set := func(size uint64) error {
		return limitFileSize(s.pid, size)
	}
	err = set(uint64(20_000 + 10_001*round)) // in the middle of a frame
	return func() error { return set(unix.RLIM_INFINITY) }, err
}

// failing returns what makes calls of a server fail for a while.
func failing(inject string) func(context.Context, *server, int) (func() error, error) {
	return func(ctx context.Context, s *server, _ int) (end func() error, err error) {
		detach, err := sysFault{inject: inject}.attach(ctx, s, "/dev/null")
		return func() error { detach(); return nil }, err
	}
}

// expectAll takes the items up to before next. Those that are unknown may come once more.
func (a *asked) expectAll(t *trial, next int, unknown map[int]bool) error {
	for want := 1; ; want++ {
		item, err := a.get()
		if err == nil && item == want-1 && unknown[item] {
			item, err = a.get()
		}
		if err != nil {
			return err
		}
		if item == 0 && want == next {
			return nil
		}
		if item != want {
			t.violate("item %d came, item %d of %d was to come", item, want, next-1)
			return nil
		}
		t.counts.items.Add(1)
	}
}

// putAgain puts an item as soon as the server takes it, and returns the number of the next.
func (a *asked) putAgain(t *trial, item int) (next int, err error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		refusal, err := a.put(item)
		if err != nil {
			return item, err
		}
		if refusal == "" {
			t.counts.puts.Add(1)
			return item + 1, nil
		}
		if time.Now().After(deadline) {
			t.violate("puts are refused although nothing is wrong any more: %s", refusal)
			return item, nil
		}
	}
}
