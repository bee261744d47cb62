package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// damageTrial damages the files of a small data directory, one byte or length at a time, and starts the server on each.
// It must refuse, saying where, and leave everything as it is; or serve what its clients had put. It must serve all of
// that unless it says that the journal was torn. "kestrel journal verify" must have said before which it will be, and
// changed nothing. The tests of segment and engine try every byte and every length, on the file system in memory. Here
// it is a sample, and the real binary.
func damageTrial(ctx context.Context, t *trial) error {
	lanes := newDamageLanes(t)
	config := filepath.Join(t.dir, "lab.toml")
	if err := os.WriteFile(config, []byte(configOf(lanes)), 0o600); err != nil {
		return err
	}
	how := launch{binary: t.binary, dir: t.dir, args: []string{"--config", "../lab.toml"}}
	for round := 0; t.more(ctx, round*damagesPerRound); round++ {
		how.dir = filepath.Join(t.dir, fmt.Sprint("damage-", round))
		if err := os.Mkdir(how.dir, 0o700); err != nil {
			return err
		}
		rng := t.rng(round<<8 | 255)
		if err := damageRound(ctx, t, how, newDamageLanes(t), round, rng); err != nil {
			return err
		}
	}
	return ctx.Err()
}

const damagesPerRound = 20

func newDamageLanes(t *trial) []*lane {
	lanes := standardLanes(t)
	for _, l := range lanes {
		l.small, l.ahead = true, 1
	}
	return lanes
}

// damageRound makes a directory and damages it in several ways, each time anew.
func damageRound(
	ctx context.Context, t *trial, how launch, lanes []*lane, round int, rng *rand.Rand,
) error {
	s, err := how.start(ctx)
	if err != nil {
		return err
	}
	defer s.kill()
	if err := makeQueues(t, s, lanes); err != nil {
		return err
	}
	end := s.kill
	if round%2 == 1 {
		end = func() { s.stop() }
		t.refusals.Store(true) // while it stops
		defer t.refusals.Store(false)
	}
	if err := runLanes(t, s, lanes, round, until{replies: 150}, end); err != nil {
		return err
	}
	sound, err := readFiles(filepath.Join(how.dir, "data"))
	if err != nil {
		return err
	}
	for i := range min(damagesPerRound, t.cycles-round*damagesPerRound) {
		if len(t.violations()) > 0 || ctx.Err() != nil {
			return nil
		}
		d := drawDamage(sound, rng, i%4 != 0)
		damaged := maps.Clone(sound)
		damaged[d.file] = d.apply(sound[d.file])
		if err := writeFiles(filepath.Join(how.dir, "data"), damaged); err != nil {
			return err
		}
		if err := judgeDamage(ctx, t, how, lanes, damaged); err != nil {
			return fmt.Errorf("damage %d, %v: %w", i, d, err)
		}
		t.explain("%v", d)
	}
	return nil
}

// damage is what happens to one file.
type damage struct {
	file   string
	offset int  // of the byte that changes, or the new length
	bit    uint // that flips; 8: the file is cut
}

func (d damage) String() string {
	if d.bit == 8 {
		return fmt.Sprintf("%s cut to %d bytes", d.file, d.offset)
	}
	return fmt.Sprintf("bit %d of byte %d of %s flipped", d.bit, d.offset, d.file)
}

// drawDamage chooses a place. It is one that has been written, which a server mostly refuses. Or it is in the room that
// a segment still has, which a server mostly serves. Where no file has such a place it chooses another.
func drawDamage(files map[string][]byte, rng *rand.Rand, written bool) damage {
	var choice []damage // offset: the first; bit is not drawn yet
	ends := make(map[string]int)
	for name, data := range files {
		used := len(bytes.TrimRight(data, "\x00"))
		if written && used > 0 {
			choice, ends[name] = append(choice, damage{file: name}), used
		}
		if !written && used < len(data) {
			choice, ends[name] = append(choice, damage{file: name, offset: used}), len(data)
		}
	}
	if len(choice) == 0 {
		return drawDamage(files, rng, !written)
	}
	slices.SortFunc(choice, func(a, b damage) int { return strings.Compare(a.file, b.file) })
	d := choice[rng.IntN(len(choice))]
	d.offset += rng.IntN(ends[d.file] - d.offset)
	d.bit = uint(rng.IntN(9))
	return d
}

func (d damage) apply(data []byte) []byte {
	if d.bit == 8 {
		return data[:d.offset]
	}
	data = bytes.Clone(data)
	data[d.offset] ^= 1 << d.bit
	return data
}

// judgeDamage starts a server on damaged files.
func judgeDamage(
	ctx context.Context, t *trial, how launch, lanes []*lane, files map[string][]byte,
) error {
	t.counts.trials.Add(1)
	verdict, said := verify(ctx, how)
	s, err := how.start(ctx)
	if errors.Is(err, errEnded) {
		if verdict != verifyDamaged {
			t.violate("the server does not start, and verify ended with %d: %s", verdict, said)
		}
		t.counts.refusals.Add(1)
		last := s.lastWords()
		if code := s.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(last, "is damaged") ||
			!strings.Contains(last, "journal/") {
			t.violate("the server ended with status %d and %s", code, last)
		}
		left, err := readFiles(filepath.Join(how.dir, "data"))
		if err == nil && !maps.EqualFunc(left, files, bytes.Equal) {
			t.violate("the server changed a damaged directory, and said %s", last)
		}
		return err
	}
	if err != nil {
		return err
	}
	defer s.kill()
	var copies []*lane // what they find is not what they go on with
	for _, l := range lanes {
		c := *l
		c.known, c.base = l.known.clone(), l.base.clone()
		copies = append(copies, &c)
	}
	torn := len(s.logged("torn")) > 0
	if want := map[bool]int{false: verifySound, true: verifyTorn}[torn]; verdict != want {
		t.violate("the server starts, torn: %t, and verify ended with %d: %s", torn, verdict, said)
	}
	_, err = inspectAll(t, s, copies, func(l *lane) int {
		if torn {
			return 0
		}
		return l.ackedBefore(time.Now())
	})
	return err
}

// Exit statuses of "kestrel journal verify".
const (
	verifySound   = 0
	verifyTorn    = 3
	verifyDamaged = 4
)

// verify runs "kestrel journal verify" and returns its exit status and what it said.
func verify(ctx context.Context, how launch) (status int, said string) {
	cmd := exec.CommandContext(ctx, how.binary, "journal", "verify", "--data-dir", "data")
	cmd.Dir = how.dir
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return -1, err.Error()
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// readFiles returns the files below dir, by their paths in it.
func readFiles(dir string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files[name], err = os.ReadFile(path)
		return err
	})
	return files, err
}

// writeFiles makes files all that is below dir.
func writeFiles(dir string, files map[string][]byte) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
