package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// limitCase is one thing that a machine can run out of, or be set up wrong in.
type limitCase struct {
	name string
	run  func(context.Context, *trial, string) error // in a directory of its own
}

func limitCases() []limitCase {
	return append([]limitCase{
		{"disk full", diskFull("size=8m")},
		{"inodes full", diskFull("size=64m,nr_inodes=24")},
		{"memory limit of the server", serverMemory},
		{"memory limit of a control group", groupMemory},
		{"descriptors", descriptors},
		{"stopped for a while", stopped},
		{"two servers", twoServers},
		{"read-only directory", readOnlyDir},
		{"directory is a file", fileForDir},
		{"directory is missing", missingDir},
		{"stray files", strayFiles},
		{"backlog cut", cutBacklog},
		{"backlog cannot be read", unreadableBacklog},
		{"file size limit", passing(false, limitFiles)},
		{"syncs fail for a while", passing(true, failing("fdatasync:error=EIO"))},
		{"writes fail for a while", passing(true, failing("pwrite64:error=EIO"))},
		{"disk full for a while", passing(true, failing("pwrite64,fallocate:error=ENOSPC"))},
	}, readingCases()...)
}

// limitsTrial does all of them.
func limitsTrial(ctx context.Context, t *trial) error {
	for i, c := range limitCases() {
		if t.only != "" && t.only != c.name {
			continue
		}
		dir := filepath.Join(t.dir, fmt.Sprint("limit-", i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		if err := c.run(ctx, t, dir); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		t.counts.trials.Add(1)
		if why := t.skipReason(); why != "" {
			fmt.Fprintf(t.log, "%s: NOT DONE HERE: %s\n", c.name, why)
			t.skip("")
		}
		if len(t.violations()) > 0 {
			t.explain("%s", c.name)
			return nil
		}
	}
	return nil
}

// asked is a connection on which a limit case asks one thing after the other. Items are numbered,
// and as large as it says.
type asked struct {
	*client
	size int
}

func ask(s *server, size int) (*asked, error) {
	c, err := dial(s, "memcache")
	if err != nil {
		return nil, err
	}
	return &asked{c, size}, nil
}

// startAsked starts a server, and connects to it for items of a size. The caller kills the server, unless there is an
// error.
func startAsked(ctx context.Context, how launch, size int) (s *server, a *asked, err error) {
	if s, err = how.start(ctx); err != nil {
		return nil, nil, err
	}
	if a, err = ask(s, size); err != nil {
		s.kill()
		return nil, nil, err
	}
	return s, a, nil
}

func (a *asked) body(item int) []byte {
	return append(fmt.Appendf(nil, "%08d", item), make([]byte, max(a.size-8, 0))...)
}

func (a *asked) put(item int) (refusal string, err error) {
	got, err := a.ask(request{op: opPut, queue: "limit", items: []int{item}}, a.body)
	return got.refusal, err
}

// get takes the next item and returns its number; 0 if there is none.
func (a *asked) get() (item int, err error) {
	got, err := a.ask(request{op: opGet, queue: "limit", count: 1}, a.body)
	if err != nil || got.refusal != "" {
		return 0, fmt.Errorf("get: %s, %w", got.refusal, err)
	}
	if len(got.items) == 0 {
		return 0, nil
	}
	if _, err := fmt.Sscanf(string(got.items[0].data[:8]), "%08d", &item); err != nil {
		return 0, err
	}
	if len(got.items[0].data) != max(a.size, 8) {
		return 0, fmt.Errorf("item %d has %d bytes", item, len(got.items[0].data))
	}
	return item, nil
}

// expectItems takes items, in order, from first on to behind, or to the end of the queue if that is
// 0.
func (a *asked) expectItems(t *trial, first, behind int) (next int, err error) {
	for next = first; behind == 0 || next < behind; next++ {
		item, err := a.get()
		if err != nil {
			return next, err
		}
		if item == 0 {
			return next, nil
		}
		if item != next {
			t.violate("item %d came, item %d was to come", item, next)
			return next, nil
		}
		t.counts.items.Add(1)
	}
	return next, nil
}

// putUntilRefused puts items from first on and returns the number of the one that was refused.
func (a *asked) putUntilRefused(t *trial, first, most int) (next int, refusal string, err error) {
	for next = first; next < first+most; next++ {
		if refusal, err = a.put(next); err != nil || refusal != "" {
			return next, refusal, err
		}
		t.counts.puts.Add(1)
	}
	return next, "", nil
}

// takeUntilRefused takes items in order, from first on, until the server says that it cannot. It returns what it says,
// and the item that is next. An item out of order is a violation, and so is the end of a queue that has items, the last
// of which is last.
func (a *asked) takeUntilRefused(t *trial, first, last int) (next int, refusal string, err error) {
	for next = first; ; next++ {
		got, err := a.ask(request{op: opGet, queue: "limit", count: 1}, a.body)
		if err != nil || got.refusal != "" {
			return next, got.refusal, err
		}
		if len(got.items) == 0 {
			if next <= last {
				t.violate("the queue is said to be empty before item %d", next)
			}
			return next, "", nil
		}
		if want := a.body(next); string(got.items[0].data) != string(want) {
			t.violate("got %.20q, want item %d", got.items[0].data, next)
			return next, "", nil
		}
		t.counts.items.Add(1)
	}
}

// expectReadAgain checks that a queue delivers its items from next to last, of that size: its backlog can be read
// again.
func expectReadAgain(t *trial, s *server, next, size, last int) error {
	for deadline := time.Now().Add(patience); next <= last; time.Sleep(20 * time.Millisecond) {
		a, err := ask(s, size) // the refusal has ended the connection before
		if err != nil {
			return err
		}
		var refusal string
		if next, refusal, err = a.takeUntilRefused(t, next, last); err != nil || len(t.violations()) > 0 {
			return err
		}
		if time.Now().After(deadline) {
			t.violate("the disk can be read again, and the queue says %q", refusal)
			return nil
		}
	}
	t.counts.checks.Add(1)
	return nil
}

// expectExit checks that a server ends at once, with one line for people that has all of words.
func expectExit(ctx context.Context, t *trial, how launch, words ...string) error {
	s, err := how.start(ctx)
	if err == nil {
		defer s.kill()
		t.violate("the server started")
		return nil
	}
	if s == nil {
		return err
	}
	t.counts.checks.Add(1)
	if code := s.cmd.ProcessState.ExitCode(); code != 1 {
		t.violate("the server ended with status %d: %s", code, s.lastWords())
	}
	var plain []string
	for _, line := range s.logged("") {
		if line["plain"] == true {
			plain = append(plain, line.message())
		}
	}
	if len(plain) != 1 {
		t.violate("the server ended with %d lines for people: %q", len(plain), plain)
		return nil
	}
	for _, word := range words {
		if !strings.Contains(plain[0], word) {
			t.violate("the server ended with %q, which lacks %q", plain[0], word)
		}
	}
	return nil
}
