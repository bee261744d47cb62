package journalcmd

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/codec/oldjournal"
	"github.com/kestrelmq/kestrel/engine"
)

// oldDir is a directory of the original's journals.
type oldDir struct {
	path    string
	fsys    fs.FS
	queues  []*oldjournal.Queue
	more    map[string]supplement // of queues that this server has exported
	without []error               // why supplements are left out
	skipped []oldjournal.Skipped
	digest  string // of the names, sizes and times of the files
}

// readOldDir replays every queue in a directory, and changes nothing. It returns all that keeps the
// queues from being imported. A terminal behind said sees how far the reading is.
func readOldDir(path string, opts oldjournal.LoadOptions, said io.Writer) (*oldDir, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, cli.Failed("cannot read the journals: %s", err)
	}
	d := &oldDir{path: path, fsys: os.DirFS(path), more: make(map[string]supplement)}
	var names []string
	sizes := make(map[string]int64)
	sum := sha256.New()
	for _, entry := range entries {
		if first, _, _ := strings.Cut(entry.Name(), "."); first == "journal" && entry.IsDir() {
			return nil, cli.Failed("%s is a data directory of this server, not one of the original", path)
		}
		info, err := os.Stat(filepath.Join(path, entry.Name()))
		if err != nil {
			return nil, cli.Failed("cannot read the journals: %s", err)
		}
		if !info.Mode().IsRegular() {
			continue
		}
		names = append(names, entry.Name())
		sizes[entry.Name()] = info.Size()
		fmt.Fprintf(sum, "%q %d %d\n", info.Name(), info.Size(), info.ModTime().UnixNano())
	}
	d.digest = fmt.Sprintf("%x", sum.Sum(nil))
	var planned []oldjournal.Files
	planned, d.skipped = oldjournal.Plan(names)
	wrong := d.checkSupplements(names, planned, opts)
	var total int64
	for _, files := range planned {
		for _, name := range files.Names {
			total += sizes[name]
		}
	}
	p := cli.TerminalProgress(said, "read", cli.Bytes, total)
	defer p.End()
	for _, files := range planned {
		if err := engine.ValidateName(files.Queue); err != nil {
			d.skip(files, err)
			continue
		}
		if q, err := d.load(files, opts); err != nil {
			wrong = append(wrong, err)
		} else {
			d.queues = append(d.queues, q)
		}
		for _, name := range files.Names {
			p.Add(sizes[name])
		}
	}
	return d, errors.Join(wrong...)
}

// checkSupplements returns an error for each supplement whose queue has no file: an export was interrupted, or not all of
// its files are here.
func (d *oldDir) checkSupplements(
	names []string, planned []oldjournal.Files, opts oldjournal.LoadOptions,
) (wrong []error) {
	known := make(map[string]bool)
	for _, files := range planned {
		known[supplementName(files.Queue)] = true
	}
	for _, name := range names {
		if strings.HasPrefix(name, supplementPrefix) && !known[name] {
			wrong = append(wrong, fmt.Errorf("%s has no file of its queue beside it: the export was interrupted, or the"+
				" file is missing", filepath.Join(d.path, name)))
		}
	}
	if opts.Salvage {
		d.without, wrong = append(d.without, wrong...), nil
	}
	return wrong
}

// skip leaves out a queue that cannot be one here.
func (d *oldDir) skip(files oldjournal.Files, why error) {
	for _, name := range files.Names {
		d.skipped = append(d.skipped, oldjournal.Skipped{Name: name, Reason: why.Error()})
	}
}

// load replays one queue.
func (d *oldDir) load(
	files oldjournal.Files, opts oldjournal.LoadOptions,
) (*oldjournal.Queue, error) {
	q, err := oldjournal.Load(d.fsys, files, opts)
	var damage *oldjournal.DamageError
	if errors.As(err, &damage) {
		damage.Path = filepath.Join(d.path, damage.Path)
	}
	if err != nil {
		return nil, err
	}
	for _, it := range q.Items {
		if it.Size > engine.MaxItemSize {
			return nil, fmt.Errorf("%s: the item at offset %d has %d bytes, and this server"+
				" takes at most %d", filepath.Join(d.path, files.Names[it.File]), it.Offset, it.Size,
				engine.MaxItemSize)
		}
	}
	more, err := loadSupplement(d.path, q)
	if err != nil && !opts.Salvage {
		return nil, err
	}
	if err != nil {
		d.without = append(d.without, err)
	}
	d.more[q.Queue] = more
	return q, nil
}

// totals are the items, and their bytes, of all queues.
func (d *oldDir) totals() (items int, bytes int64) {
	for _, q := range d.queues {
		items += len(q.Items)
		bytes += q.Bytes
	}
	return items, bytes
}
