package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/bench/peer"
	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// The rows of backups. A neighbour of the first waits for the disk at every put.
const (
	rowSynced   = "sync_journal always"
	rowUnsynced = "sync_journal never"
)

// What a backup is meant to reach.
const (
	backupGoal    = 300 // MB a second
	neighbourGoal = 2   // of the quiet p99 of a neighbour
)

// backupKind is how fast a backup goes.
type backupKind uint8

const (
	unhindered backupKind = iota // as it comes
	paced                        // with --rate
	numBackupKinds
)

// backups is what backups of one kind took, and how a neighbour fared beside them, and in the quiet before each.
type backups struct {
	bytes       int64
	wall        time.Duration
	quiet, busy span
}

// speed is in MB a second, by the clock, with the command's start and the last sync.
func (b *backups) speed() float64 { return orNaN(float64(b.bytes) / 1e6 / b.wall.Seconds()) }

func (b *backups) toQuiet() float64 { return b.busy.p99() / b.quiet.p99() }

// backupRows returns what is measured of backups.
func (o *options) backupRows() ([]row, error) {
	var rows []row
	for _, r := range []struct{ name, server string }{{rowSynced, "kestrel-always"}, {rowUnsynced, "kestrel"}} {
		s, _ := peer.Find(r.server)
		s, err := o.setup.Locate(s)
		if err != nil {
			return nil, err
		}
		port, err := spawn.FreePort()
		if err != nil {
			return nil, err
		}
		setup := o.setup
		setup.KestrelServer = fmt.Sprintf("admin_port = %d\n", port)
		setup.KestrelQueues = fmt.Sprintf("max_memory_size = %d\n", o.memory)
		rows = append(rows, row{name: r.name, server: s, setup: &setup, kind: backedUp, admin: port})
	}
	return rows, nil
}

// backup fills a queue, and copies it again and again, with quiet before each copy.
func (s *sample) backup(ctx context.Context, l *life, o *options, admin int) (err error) {
	if s.put, err = l.fill(ctx, o.items()); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	dir, err := os.MkdirTemp(o.setup.Dir, "backup-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // at the end: what the file system does about it would meet a neighbour
	copyTo := func(kind backupKind, step int, rate ...string) error {
		alone, err := l.beside(o.rate, func() error { return sleep(ctx, o.alone) })
		if err != nil {
			return fmt.Errorf("quiet: %w", err)
		}
		to := filepath.Join(dir, fmt.Sprint(kind, step))
		b := &s.backups[kind]
		busy, err := l.beside(o.rate, func() error {
			began := time.Now()
			err := runKestrel(ctx, o.setup.Kestrel, append([]string{
				"backup", "--admin", fmt.Sprintf("127.0.0.1:%d", admin), "--output", to}, rate...)...)
			b.wall += time.Since(began)
			return err
		})
		if err != nil {
			return err
		}
		b.quiet.add(&alone)
		b.busy.add(&busy)
		size, err := sizeOf(to)
		if err == nil && size < int64(o.size) {
			err = fmt.Errorf("the backup has %d bytes, and the backlog %d", size, o.size)
		}
		b.bytes += size
		return err
	}
	for step := range o.copies {
		if err := copyTo(unhindered, step); err != nil {
			return err
		}
	}
	if o.pace > 0 {
		if err := copyTo(paced, 0, "--rate", strconv.Itoa(o.pace)); err != nil {
			return err
		}
	}
	return runKestrel(ctx, o.setup.Kestrel, "restore", filepath.Join(dir, fmt.Sprint(unhindered, 0)), "--check")
}

// runKestrel runs a command, and returns an error with what it printed if it fails.
func runKestrel(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kestrel %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// sizeOf is how many bytes the files under a directory have.
func sizeOf(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}

// backupGoals returns what backups are meant to reach. Both goals are about the same copies.
func (t *table) backupGoals() (list []goal) {
	for _, name := range []string{rowSynced, rowUnsynced} {
		list = append(list,
			goal{"MB/s of a backup, " + name, t.overBackups(name, unhindered, (*backups).speed), false, backupGoal, false},
			goal{"p99 of a neighbour's put meanwhile, to quiet, " + name,
				t.overBackups(name, unhindered, (*backups).toQuiet), true, neighbourGoal, false})
	}
	return list
}

func (t *table) overBackups(name string, kind backupKind, f func(*backups) float64) []float64 {
	return t.over(name, func(s *sample) float64 { return f(&s.backups[kind]) })
}

// errGoals means that everything was measured, and something is not as it is meant to be.
var errGoals = errors.New("a goal was missed")

// missed returns errGoals if a goal was missed.
func (t *table) missed() error {
	for _, g := range t.goals() {
		if !g.reached() {
			return errGoals
		}
	}
	return nil
}

// writeBackups prints how fast backups were, and how a neighbour fared.
func (t *table) writeBackups(b *strings.Builder) {
	fmt.Fprintf(b, "\n## Backups, and a neighbour's puts, %v a second\n\n%d copies in each round as they come, each to a"+
		" new directory on the same disk. Latencies are µs from when a put was due; late is the part of it for which the"+
		" generator itself is to blame.%s\n\n"+
		"| | MB/s | p50 | p50 in quiet | p99 | p99 in quiet | to quiet | p99.9 | late, p99 |\n|---|%s\n",
		t.o.rate, t.o.copies, t.sharing(), strings.Repeat("--:|", 8))
	for _, r := range t.rows {
		for kind := range numBackupKinds {
			if kind == paced && t.o.pace == 0 {
				continue
			}
			value := func(f func(*backups) float64) string {
				return figures.Summarize(t.overBackups(r.name, kind, f)).String()
			}
			name := r.name
			if kind == paced {
				name += fmt.Sprintf(", --rate %d", t.o.pace)
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", name, value((*backups).speed),
				value(func(b *backups) float64 { return b.busy.p50() }), value(func(b *backups) float64 { return b.quiet.p50() }),
				value(func(b *backups) float64 { return b.busy.p99() }), value(func(b *backups) float64 { return b.quiet.p99() }),
				value((*backups).toQuiet), value(func(b *backups) float64 { return b.busy.p999() }),
				value(func(b *backups) float64 { return max(b.busy.lag99(), b.quiet.lag99()) }))
		}
	}
	b.WriteString("\nValues are medians over the rounds, with (least–greatest).\n")
}

// shared reports whether a neighbour waited for the load's generator.
func (s *sample) shared() bool {
	shared := s.beside[quiet].shared
	for _, b := range s.backups {
		shared = shared || b.busy.shared
	}
	return shared
}
