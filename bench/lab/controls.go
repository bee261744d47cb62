package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// control is a server, or a package, that breaks a promise on purpose. What is meant to show that
// the promise is kept must notice. A control that is not noticed is a hole in the lab.
type control struct {
	breaks string // in words
	edits  []edit
	// Of the two, one is set.
	experiment string // must find violations in a server built with the edits,
	only       string // in that case of it, if it has cases,
	cycles     int    // in so many cycles
	test       string // must fail: package and test, separated by a space
}

// replaced is an edit of one place.
func replaced(file, old, new string) []edit { return []edit{{file, old, new}} }

const (
	replyHeld   = "case len(s.out) == 0 || l.engine.Committed(s.ticket):"
	tickFile    = "netloop/tick.go"
	osFile      = "segment/osfs.go"
	osLinuxFile = "segment/osfs_linux.go"
	replayFile  = "engine/internal/replay/replay.go"
	reviveFile  = "engine/revive.go"
	journalFile = "engine/internal/journal/journal.go"
	backFile    = "engine/giveback.go"
	lookFile    = "engine/look.go"
	commitFile  = "engine/internal/journal/commit.go"
)

// durabilityControls break what a reply promises.
func durabilityControls() []control {
	soon := replaced(tickFile, replyHeld, "case true:")
	unwritten := append(replaced(tickFile, "err := l.engine.Commit(written)",
		"err := error(nil)"), soon...)
	noDatasync := replaced(osLinuxFile, "err := unix.Fdatasync(int(f.Fd()))", "err := error(nil)")
	noSyncDir := replaced("segment/make.go", `	if err := l.fs.Rename(from, to); err != nil {
		return err
	}
	return l.fs.SyncDir(l.dir)`, `	return l.fs.Rename(from, to)`)
	swallowed := replaced("segment/log.go", "	return tail.datasync()",
		"	tail.datasync()\n	return nil")
	early := replaced(commitFile, "		j.synced.Store(written)",
		"		j.synced.Store(uint64(j.End()))")
	never := replaced("engine/internal/journal/periodic.go", "		if j.syncDue() != nil {",
		"		if false {")
	const caught = "./netloop TestReplyLeavesAfterCommit"
	return []control{
		{breaks: "replies leave before the sync", edits: soon, experiment: "order", cycles: 800},
		{breaks: "replies leave before the sync", edits: soon, test: caught},
		{breaks: "replies leave before the write", edits: unwritten, experiment: "kill", cycles: 60},
		{breaks: "replies leave before the write", edits: unwritten, test: caught},
		{breaks: "nothing is synced", edits: noDatasync, experiment: "order", cycles: 800},
		{breaks: "nothing is synced", edits: noDatasync, experiment: "cut-ext4", cycles: 40},
		{breaks: "nothing is synced", edits: noDatasync, experiment: "cut-xfs", cycles: 40},
		{breaks: "directories are not synced", edits: noSyncDir, test: "./segment TestCrash"},
		{breaks: "directories are not synced", edits: noSyncDir, test: "./engine TestCrashEveryWrite"},
		{breaks: "a sync that fails passes for one that succeeds", edits: swallowed,
			experiment: "order", cycles: 800},
		{breaks: "a sync that fails passes for one that succeeds", edits: swallowed,
			experiment: "limits", only: "syncs fail for a while", cycles: 1},
		{breaks: "a sync that fails passes for one that succeeds", edits: swallowed,
			test: "./segment TestFaults"},
		{breaks: "a sync covers what came after it began", edits: early,
			experiment: "order", cycles: 6000},
		{breaks: "periodic syncs do not come", edits: never, experiment: "cut-ext4", cycles: 64},
	}
}

// contentControls break what is found after a crash, or delivered.
func contentControls() []control {
	const kill = "kill"
	checksum := replaced("segment/read.go", `return f, "payload fails its checksum", nil`, "_ = 0")
	return []control{
		{breaks: "recovery takes one removed item back", edits: replaced(replayFile,
			"idset.Between(rec.ID, rec.ID+uint64(rec.More))", "idset.Between(rec.ID, rec.ID+uint64(rec.More)-1)"),
			experiment: kill, cycles: 20},
		{breaks: "recovery skips the first item of a flush", edits: replaced(replayFile,
			"idset.Between(1, rec.Limit-1).Minus(idset.Of(except))",
			"idset.Between(2, rec.Limit-1).Minus(idset.Of(except))"),
			test: "./engine TestCrashEveryWrite"},
		{breaks: "confirms are not recorded", edits: replaced("engine/fetch.go",
			"t = r.q.remove(e.journal, r.item.ID, len(r.item.Data))", "t = Ticket{}"), experiment: kill, cycles: 20},
		{breaks: "aborted items go behind other aborted ones", edits: replaced("engine/giveback.go",
			"q.returned.pushFront(r)\n	if r.count", "q.returned.pushBack(r)\n	if r.count"), experiment: kill, cycles: 60},
		{breaks: "expired items are delivered", edits: replaced("engine/queue.go",
			"return q.opts.MaxAge > 0 && it.Added.After(q.opts.MaxAge) < now", "return false"),
			experiment: kill, cycles: 20},
		{breaks: "a child of a fanout queue is left out of the journal",
			edits: replaced("engine/put.go",
				"		if q.opts.KeepJournal {\n			sh.to = append(",
				"		if q.opts.KeepJournal && (len(sh.targets) < 3 || len(sh.to) < 2) {\n			sh.to = append("),
			experiment: kill, cycles: 20},
		{breaks: "puts of one slice share what is recorded", edits: replaced("engine/put.go",
			"e.putLarge(sh, now, name, puts[:s.Count+1], s)", "e.putLarge(sh, now, name, puts, s)"),
			test: "./engine TestPutAllOfOneSlice"},
		{breaks: "segments are dropped although items are in them",
			edits: replaced("engine/trim.go",
				"if seg, ok := q.windowSegment(); ok && seg < oldest {",
				"if seg, ok := q.windowSegment(); ok && seg < oldest && false {"),
			test: "./engine TestCrashEveryWrite"},
		{breaks: "checksums are not compared", edits: checksum, test: "./engine TestDamage"},
		{breaks: "checksums are not compared", edits: checksum, experiment: "damage", cycles: 400},
	}
}

// spillControls break what moves items between memory and runs, beside producers and consumers.
func spillControls() []control {
	const spill, ahead = "spill", "segment/readahead.go"
	// The reader of a growing run reads past its end, and keeps what it saw: nothing.
	stale := []edit{
		{ahead, "	size := min(int64(r.size), WholeBlocks(end)-from)", "	size := int64(r.size)"},
		{ahead, "	a.of, a.from, a.buf = r, from, a.buf[:n]",
			"	clear(a.buf[n:size])\n	a.of, a.from, a.buf = r, from, a.buf[:size]"},
		{ahead, "	if known := max(end-a.from, 0);", "	if known := int64(len(a.buf));"},
	}
	early := replaced("segment/run.go", "	n, err := w.file.WriteAt(w.buf, end)",
		`	late := append([]byte(nil), w.buf...)
	go w.file.WriteAt(late, end)
	n, err := len(w.buf), error(nil)`)
	twice := replaced("engine/fill.go", "		if it.ID < b.next.ID {",
		"		if b.gone.Has(it.ID) {")
	soon := []edit{
		{"engine/backlog.go", "b.runs[n].written.LastID < head {", "b.runs[n].written.FirstID < head {"},
		{"engine/backlog.go", "b.runs[0].written.LastID < q.headID() {",
			"b.runs[0].written.FirstID < q.headID() {"},
	}
	unsynced := replaced("segment/run.go", "	err := Cause(w.file.Datasync())", "	err := error(nil)")
	lost := replaced(osFile, "func (f osFile) extend(size int64) error {",
		`func (f osFile) WriteAt(p []byte, off int64) (int, error) {
	_, err := unix.Pwrite(int(f.Fd()), p, off)
	return len(p), err
}

func (f osFile) extend(size int64) error {`)
	uncaught := replaced("segment/mapped.go", "	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))",
		"	_ = debug.SetPanicOnFault")
	return []control{
		{breaks: "runs are not synced", edits: unsynced, experiment: "cut-spill", cycles: 40},
		{breaks: "a short write passes for a whole one", edits: lost, experiment: "short", cycles: 6},
		{breaks: "what was read of a growing run is kept", edits: stale, test: "./segment TestRunGrows"},
		{breaks: "frames are announced before they are written", edits: early,
			experiment: spill, cycles: 20},
		{breaks: "items of a frame that is read again come again", edits: twice,
			experiment: spill, cycles: 20},
		{breaks: "a run is deleted although items are in it", edits: soon, experiment: spill, cycles: 20},
		{breaks: "a run is spent although a batch is being written to it", edits: replaced("engine/backlog.go",
			" && !b.runs[n].busy && ", " && "), test: "./engine TestRunSyncFailsWhileWriting"},
		{breaks: "what was removed while a write to a run failed comes back", edits: replaced("engine/spill.go",
			"	for _, id := range job.cut {\n		all.Cut", "	for _, id := range job.cut[:0] {\n		all.Cut"),
			test: "./engine TestRemoveWhileWriteFails"},
		{breaks: "each caller of a journal that fails takes a buffer", edits: replaced("engine/internal/journal/commit.go",
			"	if len(j.pending) > 0 {", "	if false {"), test: "./engine/internal/journal TestMemoryWhileFailing"},
		{breaks: "a flush opens a run behind the close", edits: replaced("engine/fill.go", "	if s.closed {", "	if false {"),
			test: "./engine TestFlushBesideClose"},
		{breaks: "a flush drops what is being spilled", edits: replaced("engine/clearing.go",
			"!q.atHand() && q.coming() && q.headID() < c.limit {",
			"!q.atHand() && q.coming() && q.backlog.onDisk > 0 && q.headID() < c.limit {"),
			test: "./engine TestFlushWhileSpilling"},
		{breaks: "a fault below a map is not caught", edits: uncaught,
			experiment: "limits", only: "backlog cut while it is read, mmap", cycles: 1},
		{breaks: "a fault below a map is not caught", edits: uncaught,
			experiment: "limits", only: "disk fails below a backlog, mmap", cycles: 1},
		{breaks: "removals of a deleted run are not rewritten", edits: []edit{
			{"engine/checkpoint.go", "q.inJournal() && (len(recorded) > 0 || q.spilled))", "q.inJournal() && q.backlog != nil)"},
			{"engine/checkpoint.go", "		t.ranges(all.Within(ids))\n", "		_, _, _ = t, all, ids\n"},
		}, test: "./engine TestTrimBesideSpentRun"},
	}
}

// exposureControls break what keeps clients, and other servers, from doing harm.
func exposureControls() []control {
	const hostile, limits = "hostile", "limits"
	unanswered := replaced("netloop/life.go", "if canRead && len(s.out) > 0 {", "if false {")
	return []control{
		{breaks: "a second server may use the directory", edits: replaced("engine/internal/dirlock/dirlock.go",
			"err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)", "err := error(nil)"), experiment: limits, only: "two servers", cycles: 1},
		{breaks: "who puts faster than the disk takes is read", edits: replaced("netloop/pace.go",
			"	if len(s.ahead) == 0 && s.overQuotas == 0 || c.gone {", "	if true {"), test: "./netloop TestPace"},
		{breaks: "a connection does not rest behind refusals of a quota", edits: replaced("netloop/pace.go",
			"	if s.overQuotas > 0 {", "	if false {"), test: "./netloop TestRestOverQuota"},
		{breaks: "no queue is ahead of the disk", edits: replaced("engine/backlog.go",
			"	readBehind := b != nil && b.inReadBehind", "	readBehind := false"),
			test: "./engine TestAheadOfBacklog"},
		{breaks: "there is no limit of memory", edits: replaced("engine/put.go",
			"e.memory.Load()+int64(n) > e.opts.MemoryLimit:", "false:"), test: "./engine TestAccount"},
		{breaks: "there is no limit of connections", edits: replaced("netloop/accept.go",
			"if count > int64(s.opts.MaxConnections) {", "if count < 0 {"),
			experiment: limits, only: "descriptors", cycles: 1},
		{breaks: "large messages do not count before they are worded", edits: replaced("netloop/burrowreply.go",
			"if owed.Add(int64(n)) > a.session.share() {", "if owed.Add(int64(n)) < 0 {"), test: "./netloop TestBurrowLargeListsBounded"},
		{breaks: "unread replies are not bounded", edits: replaced("netloop/session.go",
			"return len(s.out)+s.sink.unsentBytes()+len(s.body.rest) > s.loop.server.opts.MaxPending", "return false"),
			experiment: hostile, only: "slow readers", cycles: 1},
		{breaks: "an announced item takes its memory at once", edits: replaced("netloop/buffers.go",
			"	s.in = append(s.in, buf...)",
			`	big := make([]byte, 1<<20+len(s.in)+len(buf))
	for i := 0; i < len(big); i += 4096 {
		big[i] = 1
	}
	s.in = append(append(big[:0], s.in...), buf...)`),
			experiment: hostile, only: "announced sizes", cycles: 1},
		{breaks: "items of a client that is gone do not come back", edits: replaced("netloop/abort.go",
			"		n, others := l.engine.AbortFirst(l.now, q.refs[q.head:])", "		n, others := 0, (func() int)(nil)"),
			experiment: hostile, only: "resets", cycles: 1},
		{breaks: "idle clients are not closed", edits: replaced(tickFile,
			"		l.touch(s)\n		s.quit()", "		l.touch(s)"),
			experiment: hostile, only: "slow writers", cycles: 1},
		{breaks: "a half-closed client gets no replies", edits: append(slices.Clip(unanswered),
			edit{"netloop/driver.go", "	if !d.leave(&c.session) {", "	if true {"}),
			experiment: hostile, only: "half-closed sockets", cycles: 1},
		{breaks: "a connection that is ended in its turn gets no replies", edits: unanswered, test: "./netloop TestEndedInATurn"},
		{breaks: "bytes behind a body are run although no line end came",
			edits: replaced("codec/memcache/decode.go",
				"req.BadEnd = src[bodyEnd+1] != '\\n' ||", "req.BadEnd = false && src[bodyEnd+1] != '\\n' ||"),
			test: "./netloop TestHostileInput"},
	}
}

// resourceControls break what keeps a server within its descriptors, and at work when they run out.
func resourceControls() []control {
	const bounded, goesOn = "./engine TestFilesBounded", "./segment TestDropGoesOn"
	const rotateFile, again = "segment/rotate.go", "	if l.halfDropped == s.Number {"
	return []control{
		{breaks: "a spill does not ask for a descriptor", edits: replaced("engine/spill.go",
			"	if s.openWriters.Load() >= int64(s.e.files.Writers) {", "	if false {"), test: bounded},
		{breaks: "any number of sealed segments wait for a sync", edits: replaced("engine/maintain.go",
			"MaxUnsynced: e.files.Unsynced,", "MaxUnsynced: 0,"), test: bounded},
		{breaks: "a reload copies a long queue to the journal at once", edits: replaced("engine/backlog.go",
			"	return n > smallBytes\n", "	return false\n"), test: "./engine TestReloadLongQueue"},
		{breaks: "a reload leaves open reads out of the journal", edits: replaced("engine/reload.go",
			"	for r := range at.reads(q, &q.open, &q.returned) {\n		if full() {", "	for r := range at.reads(q) {\n		if full() {"),
			test: "./engine TestReload"},
		{breaks: "a reload leaves what is aside out of the journal", edits: replaced("engine/reload.go",
			"		if seen++; q.aside.Segment(r) != 0 ||", "		if seen++; true ||"), test: "./engine TestReloadAsideInPieces"},
		{breaks: "a reload leaves the backlog out of the journal", edits: replaced("engine/reload.go",
			"	e.enterBacklog(q, pause)\n", ""), test: "./engine TestReloadCrash"},
		{breaks: "what moves is passed over while the files of runs go", edits: replaced("engine/read.go",
			"	if l.has(r) {", "	if false {"), test: "./engine TestForgoInPieces"},
		{breaks: "what a flush drops is recorded", edits: replaced("engine/gone.go",
			"	if at.clears != q.clears {", "	if false {"), test: "./engine TestFlushBesideWalk"},
		{breaks: "a move leaves out what the old journal has", edits: replaced("engine/maintain.go",
			"	e.letGoAll(q)\n", ""), test: "./engine TestMoveInPieces"},
		{breaks: "what comes back between the pieces of a move is recorded in the old journal", edits: replaced("engine/maintain.go",
			"			q.entering = true\n", ""), test: "./engine TestMoveBesideChanges"},
		{breaks: "a checkpoint goes on under the number that a reload gives", edits: replaced("engine/checkpoint.go",
			"	if q.inJournal() && q.number == t.number {", "	if q.inJournal() {"), test: "./engine TestCheckpointBesideReload"},
		{breaks: "a checkpoint that is broken off passes for a whole one", edits: replaced("engine/trim.go",
			"			return seg, err // the", "			break // the"), test: "./engine TestCheckpointBrokenOff"},
		{breaks: "no segment is dropped any more after an error", edits: replaced(rotateFile, again,
			again+"\n		return \"\", fs.ErrInvalid"), test: goesOn},
		{breaks: "a name whose sync failed is not changed again", edits: replaced(rotateFile, again,
			"	if false {"), test: goesOn},
		{breaks: "an idle server writes", edits: replaced("engine/maintain.go",
			"		at := time.Now()", "		at := time.Now()\n		for range 50 {\n			e.checkpoint()\n		}"),
			experiment: "rough", cycles: 12},
	}
}

// timeControls measure by the machine's clock what must not depend on it.
func timeControls() []control {
	byWall := append(replaced(backFile, "s, at, n := q.aside, e.precise.Now(), 0", "s, at, n := q.aside, e.spool.now(), 0"),
		replaced(backFile, "		at, part := e.precise()\n", "		at, part := e.spool.now(), time.Duration(0)\n")...)
	return []control{
		{breaks: "waits are timed by the wall clock", edits: replaced("netloop/clock.go",
			"moment(t.Sub(c.start) / time.Millisecond)",
			"moment(t.Round(0).Sub(c.start.Round(0)) / time.Millisecond)"), experiment: "clocks", cycles: 10},
		{breaks: "periodic syncs are timed by the wall clock", edits: replaced(journalFile,
			"epoch: time.Now(),", "epoch: time.Now().Round(0),"), experiment: "clocks", cycles: 20},
		{breaks: "what is due goes by the wall clock", edits: byWall, experiment: "clocks", cycles: 10},
		{breaks: "what is due goes by the wall clock", edits: byWall, test: "./engine TestClockStepsAside"},
	}
}

func controls() []control {
	return slices.Concat(durabilityControls(), contentControls(), spillControls(), exposureControls(),
		resourceControls(), timeControls(), messageControls(), momentControls(), wireControls(), rightsControls())
}

// controlsTrial builds every control, and has what is meant to notice it look at it.
func controlsTrial(ctx context.Context, t *trial) error {
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	for i, c := range controls() {
		if t.only != "" && t.only != c.breaks {
			continue
		}
		dir := filepath.Join(t.dir, fmt.Sprint("control-", i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		how, err := c.notice(ctx, t, root, dir)
		if err != nil {
			return fmt.Errorf("control %q: %w", c.breaks, err)
		}
		t.counts.trials.Add(1)
		if how == "" {
			t.violate("%q is not noticed by %s%s", c.breaks, c.experiment, c.test)
			continue
		}
		fmt.Fprintf(t.log, "%s: noticed by %s%s: %.200s\n", c.breaks, c.experiment, c.test, how)
	}
	return nil
}

// notice returns how the control was noticed; "" if it was not.
func (c control) notice(ctx context.Context, t *trial, root, dir string) (how string, err error) {
	if c.test != "" {
		return c.runTest(ctx, root, dir)
	}
	program, err := build(ctx, root, dir, c.edits)
	if err != nil {
		return "", err
	}
	for _, e := range experiments() {
		if e.name != c.experiment {
			continue
		}
		broken, err := newTrial(c.experiment, program, c.cycles, t.seed, t.log)
		if err != nil {
			return "", err
		}
		defer os.RemoveAll(broken.dir)
		broken.only, broken.edits = c.only, c.edits
		err = e.run(ctx, broken)
		if why := broken.skipReason(); why != "" {
			return "not done here: " + why, nil
		}
		if found := broken.violations(); len(found) > 0 {
			return found[0], nil
		}
		return "", err
	}
	return "", fmt.Errorf("there is no experiment %q", c.experiment)
}

// runTest runs a test on the package with the edits. That it does not build proves nothing.
func (c control) runTest(ctx context.Context, root, dir string) (how string, err error) {
	file, err := overlay(root, dir, c.edits)
	if err != nil {
		return "", err
	}
	pkg, name, _ := strings.Cut(c.test, " ")
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-overlay", file,
		"-run", "^"+name, pkg)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", nil
	}
	_, failure, found := strings.Cut(string(out), "--- FAIL: ")
	if !found {
		return "", fmt.Errorf("go test: %w\n%s", err, out)
	}
	return failure, nil
}
