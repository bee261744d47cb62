package journalcmd

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
	"github.com/kestrelmq/kestrel/codec/oldjournal"
	"github.com/kestrelmq/kestrel/engine"
)

const importPage = `Usage:
    kestrel journal import DIR --data-dir DATA [--config FILE] [flags]

Takes over the queues whose journals the original Kestrel, any version to 2.4,
or Starling keeps in DIR. Items keep their order, and the times they were added
and expire. Items of open reads are back at the head, and fanout children come
with what they hold. What 'kestrel journal export' wrote comes back with flags,
keys, delays, leases and counts. The import refuses such a file if it has
changed since, or is missing beside its supplement~~…. The import only reads
DIR. Stop the original first: its files must not change.

It imports all queues or none. Run an interrupted import again: it goes on where
it stopped, and no server starts on DATA before it has ended. It refuses queues
of DATA that already hold items.

Flags:
    --config FILE
        configuration of the server: what it says about data_dir, limits of
        memory and disk, and queues without a journal, which are left out
    --data-dir DATA
        data directory to import into; made if it is missing
    --dry-run
        read DIR, say what would be imported, and touch nothing
    --append
        add the items behind those that queues of DATA already hold
    --salvage
        go over damage, leaving out the rest of the damaged file, as the
        original did: removed items may come back, and others may be missing. Of
        a queue that has changed since its export, leave out its supplement~~…;
        a queue whose file is missing beside that is left out

Example:
    $ kestrel journal export work --output old --data-dir data
    old/work: 2 items, 10 bytes
    $ kestrel journal import old --data-dir new
    work: 2 items, 10 bytes, from work
    importing into new
    imported 1 queue, 2 items, 10 bytes into new

Exit status: 0 if everything is imported and durable; 1 if not; 2 if the flags
or the configuration are wrong.
`

func newJournalImport() *cobra.Command {
	im := new(importer)
	cmd := &cobra.Command{
		Use: "import DIR", Short: "take over the queues of the original Kestrel", Long: importPage,
	}
	data := dataFlags(cmd)
	cmd.Flags().BoolVar(&im.dryRun, "dry-run", false, "only say what would be imported")
	cmd.Flags().BoolVar(&im.appends, "append", false, "add to queues that hold items")
	cmd.Flags().BoolVar(&im.load.Salvage, "salvage", false, "go over damage")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if len(args) != 1 {
			return fmt.Errorf("'%s' takes one directory, have %d", cmd.CommandPath(), len(args))
		}
		if im.config, err = data.load(); err != nil {
			return err
		}
		im.dir, im.out, im.warn = args[0], cmd.OutOrStdout(), cmd.ErrOrStderr()
		return im.run()
	}
	return cmd
}

// importer is one import.
type importer struct {
	dir     string
	config  *config.Config
	load    oldjournal.LoadOptions
	dryRun  bool
	appends bool
	out     io.Writer
	warn    io.Writer
}

// restorer is the part of an engine that an import uses.
type restorer interface {
	Create(now engine.Time, name []byte) (engine.Ticket, error)
	Restore(now engine.Time, name []byte, it engine.Item, stands engine.Standing) (engine.Ticket, error)
	Ahead(name []byte) bool
	Stats() engine.Stats
	Withheld() []engine.WithheldQueue
	NextID(name []byte) uint64
	QueueStats(now engine.Time, name []byte) (engine.QueueStats, bool)
	Commit(engine.Ticket) error
}

// run imports.
func (im *importer) run() error {
	if sameDir(im.dir, im.config.Engine.Dir) {
		return cli.Failed("%s is the data directory: import into another one", im.dir)
	}
	if err := checkRestored(im.config.Engine.Dir); err != nil {
		return err // the next restore would remove what was imported
	}
	old, err := readOldDir(im.dir, im.load, im.warn)
	var one *cli.Failure
	switch {
	case errors.As(err, &one):
		return one
	case err != nil:
		fmt.Fprintln(im.warn, err) // a line for each
		what := "put that right first"
		if errors.Is(err, oldjournal.ErrDamaged) {
			what = "put good copies in place of what is damaged, or import what can be read with" +
				" --salvage"
		}
		return cli.Failed("nothing was imported from %s: %s", im.dir, what)
	}
	im.leaveOut(old)
	im.report(old)
	items, bytes := old.totals()
	sum := fmt.Sprintf("%s, %s, %s", cli.Counted(len(old.queues), "queue"), cli.Counted(items, "item"),
		cli.Counted(bytes, "byte"))
	if im.dryRun {
		fmt.Fprintf(im.out, "would import %s; nothing was touched\n", sum)
		return nil
	}
	if err := im.into(old); err != nil {
		return err
	}
	fmt.Fprintf(im.out, "imported %s into %s\n", sum, im.config.Engine.Dir)
	return nil
}

// sameDir reports whether two paths are known to name one directory.
func sameDir(a, b string) bool {
	real := func(path string) string {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			path = resolved
		}
		return path
	}
	return real(a) == real(b)
}

// leaveOut skips the queues that are to have no journal: neither server brings one back.
func (im *importer) leaveOut(old *oldDir) {
	kept := old.queues[:0]
	for _, q := range old.queues {
		if im.config.Engine.Settings.For(q.Queue).KeepJournal {
			kept = append(kept, q)
			continue
		}
		old.skip(q.Files, errors.New("its queue has keep_journal = false"))
	}
	old.queues = kept
}

// report says what was found.
func (im *importer) report(old *oldDir) {
	for _, s := range old.skipped {
		if !s.Expected {
			fmt.Fprintf(im.warn, "skipped %s: %s\n", cli.OneLine(s.Name), cli.OneLine(s.Reason))
		}
	}
	for _, why := range old.without {
		fmt.Fprintf(im.warn, "salvaged: left out what a supplement has: %s\n", cli.ErrorLine(why))
	}
	for _, q := range old.queues {
		for _, b := range q.Damaged {
			fmt.Fprintf(im.warn, "salvaged: left out %s of %s\n", cli.Counted(b.Size, "byte"),
				cli.OneLine(b.String()))
		}
		if q.Torn != nil {
			fmt.Fprintf(im.warn, "torn end, as a crash leaves it: left out %s of %s\n",
				cli.Counted(q.Torn.Size, "byte"), cli.OneLine(q.Torn.String()))
		}
		line := fmt.Sprintf("%s: %s, %s, from %s", q.Queue, cli.Counted(len(q.Items), "item"),
			cli.Counted(q.Bytes, "byte"), strings.Join(q.Names, ", "))
		if q.Returned > 0 {
			line += fmt.Sprintf("; %s back at the head", cli.Counted(q.Returned, "open read"))
		}
		fmt.Fprintln(im.out, cli.OneLine(line))
	}
}

// TornWarning says that the end of the journal was cut off.
const TornWarning = "the journal ended in a torn write, as after a power cut: the torn bytes are cut off and saved"

// into imports into the data directory.
func (im *importer) into(old *oldDir) (err error) {
	opts := im.config.Engine
	// Nothing expires meanwhile, and no item becomes a dead letter: it would count as one that was imported.
	opts.SweepInterval, opts.Still = 0, true
	e, err := engine.Open(opts)
	if err != nil {
		return config.Explain(err, im.config)
	}
	defer func() {
		if closed := e.Close(); err == nil && closed != nil {
			err = im.interrupted(closed)
		}
	}()
	if t := e.Recovery().Journal.Tear; t != nil {
		fmt.Fprintf(im.warn, "%s: %s, offset %d: %s\n", TornWarning, t.Path, t.Offset, t.Reason)
	}
	mark, err := im.mark(e, old)
	if err != nil {
		return err
	}
	items, _ := old.totals()
	p := cli.TerminalProgress(im.warn, "imported", cli.Items, int64(items))
	if err := restoreAll(e, old, mark, p); err != nil {
		return im.interrupted(err)
	}
	if err := removeDurably(importMarkPath(opts.Dir)); err != nil {
		return im.interrupted(err)
	}
	return nil
}

// interrupted says what to do about an import that ended early.
func (im *importer) interrupted(err error) *cli.Failure {
	how := "run it again when that is put right: it goes on where it stopped"
	if errors.Is(err, engine.ErrOutOfMemory) {
		how = "run it again with --config and a larger memory_limit: it goes on where it stopped"
	}
	return cli.Failed("the import into %s is not finished: %s: %s", im.config.Engine.Dir, err, how)
}

// mark returns the mark of an import that was interrupted. If there is none, it makes a durable mark of a
// new import.
func (im *importer) mark(e restorer, old *oldDir) (*importMark, error) {
	dir := im.config.Engine.Dir
	mark, err := loadImportMark(dir)
	if err != nil {
		return nil, cli.Failed("%s", err)
	}
	if mark != nil {
		return mark, im.resume(e, old, mark)
	}
	for _, q := range e.Withheld() {
		if slices.ContainsFunc(old.queues, func(o *oldjournal.Queue) bool { return o.Queue == q.Name }) {
			return nil, cli.Failed("nothing was imported: the queue %q of %s is damaged, and takes nothing: see 'kestrel"+
				" journal repair' first: %s", q.Name, dir, q.Reason)
		}
	}
	source, err := filepath.Abs(im.dir)
	if err != nil {
		return nil, err
	}
	mark = &importMark{Source: source, Digest: old.digest}
	var full []string
	for _, q := range old.queues {
		name := []byte(q.Queue)
		if s, ok := e.QueueStats(engine.Now(), name); ok && s.Items > 0 {
			full = append(full, fmt.Sprintf("%s (%s)", q.Queue, cli.Counted(s.Items, "item")))
		}
		mark.Queues = append(mark.Queues, importGoal{q.Queue, e.NextID(name), len(q.Items)})
	}
	if len(full) > 0 && !im.appends {
		return nil, cli.Failed("nothing was imported: queues of %s hold items already: %s: import into an"+
			" empty data directory, or add to them with --append", dir, cli.ListOf(full))
	}
	if err := mark.save(dir); err != nil {
		return nil, cli.Failed("nothing was imported: %s", err)
	}
	fmt.Fprintf(im.out, "importing into %s\n", dir)
	return mark, nil
}

// resume checks that old is what the mark is about, and that nobody else has used the queues.
func (im *importer) resume(e restorer, old *oldDir, mark *importMark) error {
	path := importMarkPath(im.config.Engine.Dir)
	var planned int
	for _, q := range old.queues {
		g, ok := mark.goal(q.Queue)
		if !ok || g.Items != len(q.Items) {
			continue
		}
		if added := e.NextID([]byte(q.Queue)) - g.FirstID; added <= uint64(g.Items) {
			planned++
		}
	}
	if mark.Digest != old.digest || planned != len(mark.Queues) || planned != len(old.queues) {
		return cli.Failed("an import of %s was interrupted, and %s is not as it was then: run it again"+
			" with the files and flags it had, or remove %s to keep the part that is there",
			mark.Source, im.dir, path)
	}
	fmt.Fprintf(im.out, "going on with the import of %s that was interrupted\n", mark.Source)
	return nil
}

// importBatch is after how many bytes of items an import has the journal written.
const importBatch = 1 << 20

// restoreAll adds what is missing of the mark's items, and makes all of it durable.
func restoreAll(e restorer, old *oldDir, mark *importMark, p *cli.Progress) error {
	defer p.End()
	var all engine.Ticket
	for _, q := range old.queues {
		g, _ := mark.goal(q.Queue)
		t, err := restoreQueue(e, old, q, g, p)
		if err != nil {
			return err
		}
		all = all.Merge(t)
	}
	return e.Commit(engine.Ticket{Written: all.Written, Synced: all.Written})
}

// restoreQueue adds what is missing of a queue's items.
func restoreQueue(
	e restorer, old *oldDir, q *oldjournal.Queue, g importGoal, p *cli.Progress,
) (all engine.Ticket, err error) {
	now, name := engine.Now(), []byte(q.Queue)
	if all, err = e.Create(now, name); err != nil {
		return all, err
	}
	bodies := q.Bodies(old.fsys)
	defer bodies.Close()
	var buf []byte
	unwritten := 0
	checked := old.more[q.Queue]
	more, err := checked.open()
	if err != nil {
		return all, err
	}
	defer more.Close()
	there := int(e.NextID(name) - g.FirstID)
	for i, it := range q.Items {
		p.Add(1)
		if i < there {
			if _, _, err := more.item(engine.Item{}); err != nil {
				return all, fmt.Errorf("read %s: %w", checked.name, err)
			}
			continue
		}
		if buf, err = bodies.Append(buf[:0], it); err != nil {
			return all, err
		}
		item, stands, err := more.item(restored(it, buf, now))
		if err != nil {
			return all, fmt.Errorf("read %s: %w", checked.name, err)
		}
		t, err := restoreItem(e, now, name, item, stands)
		if err != nil {
			return all, fmt.Errorf("queue %q: %w", q.Queue, err)
		}
		all = all.Merge(t)
		if unwritten += len(buf); unwritten >= importBatch {
			if err := e.Commit(engine.Ticket{Written: all.Written}); err != nil {
				return all, err
			}
			unwritten = 0
		}
	}
	return all, nil
}

const (
	// lookInterval is how long an import waits before it looks again whether the disk has caught up.
	lookInterval = 2 * time.Millisecond
	// memoryPatience is how often it looks for memory while none becomes free, before it gives up.
	memoryPatience = 5000
)

// restoreItem adds an item. It waits until there is memory for the item, and until the queue is no longer ahead of the
// disk.
func restoreItem(
	e restorer, now engine.Time, name []byte, it engine.Item, stands engine.Standing,
) (t engine.Ticket, err error) {
	t, err = e.Restore(now, name, it, stands)
	for errors.Is(err, engine.ErrOutOfMemory) && waitForMemory(e, int64(len(it.Data))) {
		t, err = e.Restore(now, name, it, stands)
	}
	for err == nil && e.Ahead(name) {
		time.Sleep(lookInterval)
	}
	return t, err
}

// waitForMemory waits until n bytes of memory are free, as queues that hold much are written to disk.
// It reports false if they will not be.
func waitForMemory(e restorer, n int64) bool {
	s := e.Stats()
	for quiet := 0; n <= s.MemoryLimit && quiet < memoryPatience; quiet++ {
		time.Sleep(lookInterval)
		least := s.MemoryBytes
		if s = e.Stats(); s.MemoryBytes+n <= s.MemoryLimit {
			return true
		}
		if s.MemoryBytes < least {
			quiet = 0
		}
	}
	return false
}

// restored is an old item as an engine takes it. One that does not say when it was added is new;
// one that expired before 1970 has expired.
func restored(it oldjournal.Item, data []byte, now engine.Time) engine.Item {
	r := engine.Item{Data: data, Added: engine.Time(it.Added), Expiry: engine.Time(it.Expiry)}
	if r.Added <= 0 {
		r.Added = now
	}
	if r.Expiry < 0 {
		r.Expiry = 1
	}
	return r
}
