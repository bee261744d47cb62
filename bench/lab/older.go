package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// beforeMessages is the commit before the first of those that brought delays, leases and keys.
const beforeMessages = "6c1ccbdb9fb23b24e80eac72dc4fac8cfd7e2e45"

// errNoHistory says that the repository has no such commit.
var errNoHistory = errors.New("the history here does not have the older commit")

// olderTrial has two builds of the server take turns at one data directory of plain queues. They are the one under
// test, and the one before delays, leases and keys. Each must find, and serve whole, what the other has acknowledged.
// Then the build under test writes what the older one does not know. That one must refuse the directory, and change
// nothing.
func olderTrial(ctx context.Context, t *trial) error {
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	older, err := buildCommit(ctx, root, beforeMessages, filepath.Join(t.dir, "older"))
	if errors.Is(err, errNoHistory) {
		t.skip("%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	if err := olderTurns(ctx, t, []string{t.binary, older}); err != nil || len(t.violations()) > 0 {
		return err
	}
	for i, news := range unknownToOlder() {
		if err := olderRefuses(ctx, t, older, filepath.Join(t.dir, fmt.Sprint("refused-", i)), news); err != nil {
			return fmt.Errorf("%s: %w", news.what, err)
		}
	}
	return ctx.Err()
}

// buildCommit compiles the server of a commit in dir, and returns the path of the program. Nothing of the repository
// changes.
func buildCommit(ctx context.Context, root, commit, dir string) (string, error) {
	git := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = root
		return cmd
	}
	if err := git("cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		return "", fmt.Errorf("%w %s, as in a shallow clone (%v)", errNoHistory, commit, err)
	}
	files, err := git("archive", "--format=tar", commit).Output()
	if err != nil {
		return "", fmt.Errorf("git archive %s: %w", commit, err)
	}
	tree := filepath.Join(dir, "tree")
	if err := unpack(files, tree); err != nil {
		return "", fmt.Errorf("unpack commit %s: %w", commit, err)
	}
	return compile(ctx, tree, dir, "-trimpath") // so that what go has compiled before serves in another directory
}

// unpack writes the regular files of a tar archive into dir.
func unpack(archive []byte, dir string) error {
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
}

// plainPorts are the flags of the ports that every build has.
func plainPorts() map[string]string {
	ports := protocolPorts()
	delete(ports, "burrow")
	return ports
}

// olderTurns lets builds take turns until the trial has had enough of them.
func olderTurns(ctx context.Context, t *trial, builds []string) error {
	lanes, spills := standardLanes(t), spillLanes(t)
	how := launch{dir: t.dir, args: []string{"--config", "lab.toml", "--admin-port", "auto"}, ports: plainPorts()}
	backlogs := filepath.Join(t.dir, "data", "backlog")
	config := configOf(lanes)
	for _, l := range spills {
		config += l.config()
	}
	for cycle := 0; t.more(ctx, cycle); cycle++ {
		codec := []string{"none", "s2", "zstd"}[cycle/len(builds)%3]
		top := fmt.Sprintf("backlog_compression = %q\nbacklog_read = %q\n", codec, readings()[cycle/len(builds)%2])
		if err := os.WriteFile(filepath.Join(t.dir, "lab.toml"), []byte(top+config), 0o600); err != nil {
			return err
		}
		how.binary = builds[cycle%len(builds)]
		before := newestRun(backlogs)
		if err := olderTurn(ctx, t, how, lanes, spills, cycle); err != nil {
			return fmt.Errorf("cycle %d, %s: %w", cycle, how.binary, err)
		}
		t.counts.runs.Add(max(newestRun(backlogs)-before, 0))
	}
	return nil
}

// olderTurn starts one build where the other was killed, or stopped. It looks at every item, works, and is killed. Half
// of the time it starts once more, and stops in order.
func olderTurn(
	ctx context.Context, t *trial, how launch, lanes []*lane, spills []*spillLane, cycle int,
) error {
	rng := t.rng(cycle<<8 | 255)
	s, err := startOrViolate(ctx, t, how)
	if s == nil || err != nil {
		return err
	}
	defer s.kill()
	v, err := inspectAll(t, s, lanes, func(l *lane) int { return l.ackedBefore(time.Now()) })
	if err != nil {
		return err
	}
	for _, l := range spills {
		if err := l.inspect(v); err != nil {
			return errors.Join(err, v.c.conn.Close())
		}
	}
	if err := v.c.end(); err != nil {
		return fmt.Errorf("end inspection: %w", err)
	}
	if err := makeQueues(t, s, lanes); err != nil {
		return err
	}
	var readErr error
	end := func() {
		readErr = expectReadable(t, s)
		s.kill()
		t.counts.trials.Add(1)
	}
	if rng.IntN(2) == 0 {
		err = runLanes(t, s, lanes, cycle, until{replies: int64(20 + rng.IntN(3000))}, end)
	} else {
		err = runSpill(t, s, spills, cycle, int64(20+rng.IntN(1+rng.IntN(20_000))), end)
	}
	if err = errors.Join(err, readErr); err != nil {
		return err
	}
	expectNoWarning(t, s)
	if rng.IntN(2) == 0 {
		return nil
	}
	if s, err = startOrViolate(ctx, t, how); s == nil || err != nil {
		return err
	}
	if status := s.stop(); status != 0 {
		t.violate("a server that is to stop ends with status %d: %s", status, s.lastWords())
	}
	return nil
}

// news is what a memcache client asks for that the older build does not know.
type news struct{ what, requests string }

func unknownToOlder() []news {
	return []news{
		{"a delay", "set q/delay=3600000 0 0 1\r\nx\r\n"},
		{"a lease", "set q 0 0 1\r\nx\r\ngets q/lease=3600000\r\n"},
		{"a key", "set q/key=K 0 0 1\r\nx\r\n"},
		{"a key of an item that is gone", "set q/key=K 0 0 1\r\nx\r\nget q\r\n"},
		{"another expiry", "set q 0 0 1\r\nx\r\ntouch q/id=1 3600\r\n"},
		{"a dead letter", "set q 0 0 1\r\nx\r\nget q/open\r\nget q/reject\r\n"},
	}
}

// olderRefuses has the build under test write some news into dir. The older one must refuse that: it ends by itself, says
// why, and leaves every file as it is. Then the build under test has what there was.
func olderRefuses(ctx context.Context, t *trial, older, dir string, n news) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	how := launch{binary: t.binary, dir: dir, ports: plainPorts()}
	s, err := how.start(ctx)
	if err != nil {
		return err
	}
	defer func() { s.kill() }()
	written, err := said(s, n.requests+look)
	if err != nil {
		return err
	}
	s.kill()
	data := filepath.Join(dir, "data")
	before, err := readFiles(data)
	if err != nil {
		return err
	}
	how.binary = older
	if s, err = how.start(ctx); !errors.Is(err, errEnded) {
		t.violate("the older build starts on a directory with %s: %v", n.what, err)
		return nil
	}
	for _, words := range []string{"a newer release of kestrel wrote it", "nothing was changed"} {
		if !strings.Contains(s.lastWords(), words) {
			t.violate("the older build does not say %q of a directory with %s: %s", words, n.what, s.lastWords())
		}
	}
	after, err := readFiles(data)
	if err != nil {
		return err
	}
	if !maps.EqualFunc(before, after, bytes.Equal) {
		t.violate("the older build changes a directory with %s: %v were there, and %v are", n.what,
			slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	}
	how.binary = t.binary
	if s, err = startOrViolate(ctx, t, how); s == nil || err != nil {
		return err
	}
	found, err := said(s, look)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(written, found) || !strings.Contains(found, "\r\nx\r\n") && !strings.Contains(n.what, "gone") {
		t.violate("behind the older build a directory with %s has %q, and had %q", n.what, found, written)
	}
	t.counts.trials.Add(1)
	t.counts.checks.Add(1)
	return nil
}

// look shows a client of memcache all that is in the queue of some news, and in that of dead letters.
const look = "get q/from=0/hidden/meta\r\nget q_dead/from=0/hidden/meta\r\n"

// said sends requests of memcache, and returns all replies.
func said(s *server, requests string) (string, error) {
	c, err := dial(s, "memcache")
	if err != nil {
		return "", err
	}
	defer c.conn.Close()
	if _, err := io.WriteString(c.conn, requests+"quit\r\n"); err != nil {
		return "", err
	}
	replies, err := io.ReadAll(c.conn)
	return string(replies), err
}
