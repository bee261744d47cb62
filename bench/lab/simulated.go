package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// notJudged are the controls that the simulation cannot notice, or meets too rarely, and why. What is meant to
// notice them is in their reason, and in the control itself.
var notJudged = map[string]string{
	"a short write passes for a whole one":   "The simulation has files of its own; the experiment short has the real ones.",
	"what was read of a growing run is kept": "Runs of its small queues go through the page cache; ./segment TestRunGrows has both ways.",
	"a half-closed client gets no replies":   "Its connections are in memory; the experiment hostile has sockets.",
	"nothing is synced":                      "The simulation has files of its own; the experiment order has the real ones.",
	"a fault below a map is not caught":      "Its files are not mapped; the experiment limits has two that fail below a map.",
	"what was removed while a write to a run failed comes back": "It meets such a moment too rarely; ./engine " +
		"TestRemoveWhileWriteFails makes it.",
	"puts of one slice share what is recorded":              "Its clients send each item; ./engine TestPutAllOfOneSlice puts a slice twice.",
	"a reload copies a long queue to the journal at once":   "Its queues are short of what counts as long; ./engine TestReloadLongQueue has more.",
	"a flush opens a run behind the close":                  "It meets such a moment too rarely; ./engine TestFlushBesideClose makes it.",
	"a second server may use the directory":                 "The lock is one of the operating system; the experiment limits starts two servers.",
	"who puts faster than the disk takes is read":           "Connections in memory have no pacing; ./netloop TestPace has a paced driver.",
	"large messages do not count before they are worded":    "Its items are small; ./netloop TestBurrowLargeListsBounded has large ones.",
	"a connection does not rest behind refusals of a quota": "Nobody has a quota there; ./netloop TestRestOverQuota does.",
	"no queue is ahead of the disk":                         "Nobody is paced in the simulation; ./engine TestAheadOfBacklog asks the engine.",

	"a released item counts as delivered": "Its ledger allows for a range of counts; ./engine TestQueueModel knows each.",
	"what is due stays hidden":            "Its clients wait for ever then, and no law says why; ./engine TestQueueModel does.",
	"the file of a hidden run goes before the journal says that nothing lives in it": "It meets such a moment too rarely; ./engine TestSpentGoesBehindRecord makes it.",
	"the file of a hidden run goes before what lives in it is written again":         "It meets such a moment too rarely; ./engine TestHideAgainRecordsFirst makes it.",

	"what has left memory again counts as read back": "It meets such a moment too rarely; ./engine TestUnloadBehindRead makes it.",

	"the file of a hidden run is spent before the journal names the next": "It meets such a moment too rarely; ./engine " +
		"TestHideAgainRecordsFirst makes it.",

	"a reload leaves the backlog out of the journal": "Few of its queues that enter the journal have runs; ./engine " +
		"TestReloadCrash stops at every call.",
	"what comes back between the pieces of a move is recorded in the old journal": "Its queues cross in one piece; ./engine " +
		"TestMoveBesideChanges has more.",
	"a checkpoint goes on under the number that a reload gives": "It meets such a moment too rarely; ./engine " +
		"TestCheckpointBesideReload makes it.",

	// Only removals by id or key make holes in a backlog that are worth a file of marks, or another run.
	"files of marks, and thinned runs, are not synced":         "Too few items leave the middle of its backlogs; ./engine TestMarksCrash removes more.",
	"a marks file replaces another, and not all that this had": "Too few items leave the middle of its backlogs; ./engine TestMarks removes more.",
	"a start does not read what is gone in a marks file":       "Too few items leave the middle of its backlogs; ./engine TestMarks removes more.",
	"a checkpoint leaves the marks file out":                   "Too few items leave the middle of its backlogs; ./engine TestMarks removes more.",
	"a thinned run is not recorded":                            "Too few items leave the middle of its backlogs; ./engine TestMarksCrash removes more.",

	"a change of many items misses what comes back meanwhile": "Its clients change one item at a time; ./engine TestScanMeets changes many.",

	"the removal of an overwritten item stands before that": "It meets such a moment too rarely; ./engine " +
		"TestRemovalOfOverwritten makes it.",

	// A start that finds no keys beside items reads the items, and finds the same keys.
	"the keys of a backlog's run are not written":    "Nobody notices but by the work; ./engine TestKeys sees what a start reads.",
	"a hidden run lacks the keys of its items":       "Nobody notices but by the work; ./engine TestHiddenCrash sees what a start reads.",
	"a start takes keys of items that are gone":      "A put of a new key that is refused breaks no law there; ./engine TestKeys asks for each key.",
	"hashes with another seed are taken":             "The frames of its queues mostly have one seed; ./engine TestKeys has others.",
	"a damaged frame of keys has its queue withheld": "A queue of a damaged directory may be withheld there; ./engine TestKeys wants all.",
	"a repair counts a frame of keys as lost items":  "It repairs nothing; ./engine TestKeys does.",
}

// ofKeys are controls that only seeds of bench/sim's theme keyed can notice: one in keyedSeeds, from firstKeyed on.
var ofKeys = []string{
	"an overwrite leaves two copies",
	"an overwrite is not recorded",
	"the removal of an item in the middle is lost",
	"a start takes the item that was overwritten",
	"what was removed on disk comes again",
	"keys of items on disk are not known after a restart",
}

const firstKeyed, keyedSeeds = 5, 12

// simulatedControls are those that the simulation is to notice, and those of notJudged. It has no users, and does not
// judge what replies say: the controls of rights and of the wire are not among them.
func simulatedControls() []control {
	return slices.Concat(durabilityControls(), contentControls(), spillControls(), exposureControls(),
		resourceControls(), timeControls(), messageControls())
}

// isSimulated reports whether a simulation runs what the control breaks, and judges it.
func (c control) isSimulated() bool { return notJudged[c.breaks] == "" }

// simulatedTrial has the simulation look at every control that it can notice, for so many seconds each.
func simulatedTrial(ctx context.Context, t *trial) error {
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	for i, c := range simulatedControls() {
		if seen[c.breaks] || !c.isSimulated() || t.only != "" && t.only != c.breaks {
			continue
		}
		seen[c.breaks] = true
		dir := filepath.Join(t.dir, fmt.Sprint("control-", i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		how, err := c.simulate(ctx, root, dir, t.cycles)
		if err != nil {
			return fmt.Errorf("control %q: %w", c.breaks, err)
		}
		t.counts.trials.Add(1)
		if how == "" {
			t.violate("%q is not noticed by the simulation", c.breaks)
			continue
		}
		fmt.Fprintf(t.log, "%s: noticed by the simulation: %.200s\n", c.breaks, how)
	}
	return nil
}

// simulate returns how the simulation has noticed the control; "" if it has not within some seconds.
func (c control) simulate(ctx context.Context, root, dir string, seconds int) (how string, err error) {
	file, err := overlay(root, dir, c.edits)
	if err != nil {
		return "", err
	}
	seed, step := 1, 1
	if slices.Contains(ofKeys, c.breaks) {
		seed, step = firstKeyed, keyedSeeds
	}
	cmd := exec.CommandContext(ctx, "go", "run", "./bench/sim", "-overlay", file, "-shorten=false",
		"-seed", fmt.Sprint(seed), "-step", fmt.Sprint(step), "-for", fmt.Sprintf("%ds", seconds))
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case !errors.As(err, &exit) || !strings.Contains(string(out), " fails, after "):
		return "", fmt.Errorf("bench/sim: %w\n%s", err, out)
	}
	return strings.Join(strings.Fields(string(out)), " "), nil
}
