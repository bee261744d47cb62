package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest/failingdisk"
)

// A backlog that is large enough to be read through maps, in the middle of which something happens. The queue keeps
// its first megabyte in memory, so its first run begins behind that. What is taken leads the server past the first
// two megabytes of that run.
const (
	readingItem   = 8000 // bytes of an item
	readingItems  = 1300
	readingTaken  = 400
	readingMemory = "1MiB"
)

// readings returns the values of backlog_read.
func readings() []string { return []string{"mmap", "direct"} }

// readingLaunch returns how a server is started that reads backlogs back in that way.
func readingLaunch(t *trial, dir, way string) (launch, error) {
	config := "segment_size = \"256KiB\"\njournal_size = \"2MiB\"\nbacklog_read = \"" + way + "\"\n" +
		"[queues.limit]\nsync_journal = \"never\"\nmax_memory_size = \"" + readingMemory + "\"\n"
	err := os.WriteFile(filepath.Join(dir, "lab.toml"), []byte(config), 0o600)
	return launch{binary: t.binary, dir: dir, args: []string{"--config", "lab.toml", "--admin-port", "auto"}}, err
}

// startReading starts a server with the backlog: the first time it puts the items.
func startReading(ctx context.Context, t *trial, how launch, put bool) (s *server, a *asked, err error) {
	if s, err = how.start(ctx); err != nil {
		return s, nil, err
	}
	if a, err = ask(s, readingItem); err != nil || !put {
		return s, a, err
	}
	next, refusal, err := a.putUntilRefused(t, 1, readingItems)
	if err == nil && refusal != "" {
		err = fmt.Errorf("put item %d: %s", next, refusal)
	}
	return s, a, err
}

// takeInto takes the items up to the middle of a run, and checks that the backlog is read as it is to be.
func (a *asked) takeInto(t *trial, s *server, way string) error {
	next, err := a.expectItems(t, 1, 1+readingTaken)
	if err != nil {
		return err
	}
	if next != 1+readingTaken {
		t.violate("the queue is said to be empty before item %d", next)
		return nil
	}
	metrics, err := metricsOf(s)
	if err != nil {
		return err
	}
	mapped, direct, err := bytesRead(metrics)
	if err != nil {
		return err
	}
	if (mapped > 0) != (way == "mmap") || direct == 0 {
		t.violate("with backlog_read = %q %d bytes came through maps, and %d otherwise", way, mapped, direct)
	}
	return nil
}

// cutWhileRead is the case of a backlog whose files are cut short before the place at which the server reads. It
// serves what it has read, then answers with errors, and harms nothing else.
func cutWhileRead(way string) func(context.Context, *trial, string) error {
	return func(ctx context.Context, t *trial, dir string) error {
		how, err := readingLaunch(t, dir, way)
		if err != nil {
			return err
		}
		s, a, err := startReading(ctx, t, how, true)
		defer func() { s.kill() }()
		if err != nil {
			return err
		}
		if err := a.takeInto(t, s, way); err != nil || len(t.violations()) > 0 {
			return err
		}
		if err := cutFiles(filepath.Join(dir, "data", "backlog")); err != nil {
			return err
		}
		_, err = a.expectUnreadable(t, s)
		return err
	}
}

// cutFiles cuts every file of a directory to a megabyte.
func cutFiles(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, file := range files {
		err = errors.Join(err, os.Truncate(file, 1<<20))
	}
	return err
}

// expectUnreadable takes items until the backlog cannot be read: what is in memory by then comes, in order, and then
// an error. The server and its other queues go on. It returns the item that is next.
func (a *asked) expectUnreadable(t *trial, s *server) (next int, err error) {
	next, refusal, err := a.takeUntilRefused(t, 1+readingTaken, readingItems)
	if err != nil { // the connection has broken: has the server?
		select {
		case <-s.exit:
			t.violate("the server has ended: %s", s.lastWords())
			return next, nil
		case <-time.After(patience):
			return next, err
		}
	}
	if !strings.Contains(refusal, "backlog cannot be read") {
		t.violate("behind item %d of a backlog that cannot be read the queue said %q", next-1, refusal)
		return next, nil
	}
	if _, err := s.awaitLog("backlog could not be read: fetches from the queue fail"); err != nil {
		t.violate("a backlog that cannot be read: %v", err)
	}
	expectService(t, s, "beside a backlog that cannot be read")
	t.counts.checks.Add(1)
	return next, nil
}

// failWhileRead is the case of a disk that fails below a backlog while the server reads it, and forgets what it has
// read of it. Clients get errors. When the disk is well again, everything comes, in order.
func failWhileRead(way string) func(context.Context, *trial, string) error {
	return func(ctx context.Context, t *trial, dir string) error {
		how, err := readingLaunch(t, dir, way)
		if err != nil {
			return err
		}
		s, _, err := startReading(ctx, t, how, true)
		if err != nil {
			s.kill()
			return err
		}
		if status := s.stop(); status != 0 {
			return fmt.Errorf("the server ended with status %d: %s", status, s.lastWords())
		}
		disk, remove, err := putOnFailingDisk(filepath.Join(dir, "data", "backlog"), filepath.Join(dir, "disk"))
		if errors.Is(err, failingdisk.ErrUnavailable) {
			t.skip("%v", err)
			return nil
		}
		if err != nil {
			return err
		}
		defer remove()
		s, a, err := startReading(ctx, t, how, false)
		defer func() { s.kill() }()
		if err != nil {
			return err
		}
		if err := a.takeInto(t, s, way); err != nil || len(t.violations()) > 0 {
			return err
		}
		if err := errors.Join(disk.Fail(), disk.Forget()); err != nil {
			return err
		}
		next, err := a.expectUnreadable(t, s)
		if err != nil || len(t.violations()) > 0 {
			return err
		}
		failed, err := disk.Failed()
		if err == nil && failed == 0 {
			err = errors.New("no read of the disk has failed")
		}
		if err = errors.Join(err, disk.Heal()); err != nil {
			return err
		}
		return expectReadAgain(t, s, next, readingItem, readingItems)
	}
}

// putOnFailingDisk mounts a disk that can fail, and puts the first file of a directory on it. The
// last one must stay: a server removes runs that it has not recorded when it starts.
func putOnFailingDisk(dir, mount string) (disk *failingdisk.Disk, remove func(), err error) {
	if err := os.Mkdir(mount, 0o700); err != nil {
		return nil, nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.run"))
	if err == nil && len(files) < 2 {
		err = fmt.Errorf("the backlog has only %d files", len(files))
	}
	if err != nil {
		return nil, nil, err
	}
	if disk, err = failingdisk.New(mount, dir); err != nil {
		return nil, nil, err
	}
	remove = func() {
		detachMount(files[0])
		disk.Close()
	}
	if err := bindMount(filepath.Join(mount, filepath.Base(files[0])), files[0]); err != nil {
		remove()
		return nil, nil, err
	}
	return disk, remove, nil
}
