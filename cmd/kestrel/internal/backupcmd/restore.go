package backupcmd

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/engine/backup"
	"github.com/kestrelmq/kestrel/segment"
)

const restorePage = `Usage:
    kestrel restore FROM --data-dir DATA
    kestrel restore FROM --check

Makes DATA, which must be empty or missing, what 'kestrel backup' copied. FROM
is a backup: its directory, its archive, or - for an archive on standard input.
The command compares every sum, reads DATA as a server would when it starts, and
makes it durable. If it dies, no server starts on DATA, and the next restore
begins anew.

Flags:
    --data-dir DATA
        where the queues go
    --check
        read all of FROM and compare its sums; write nothing

Example:
    $ kestrel backup --output nightly
    nightly: …
    $ kestrel restore nightly --check
    sound: …, as of …
    $ kestrel restore nightly --data-dir restored
    restored: …, as of …
    $ kestrel backup --output - | kestrel restore - --data-dir elsewhere
    elsewhere: …, as of …

Exit status: 0 if everything is restored and durable, or sound; 1 if not; 2 if
the flags are wrong.
`

// NewRestore returns `kestrel restore`.
func NewRestore() *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore FROM", Short: "bring back what a backup has", Long: restorePage,
	}
	dir := cmd.Flags().String("data-dir", "", "where the queues go")
	check := cmd.Flags().Bool("check", false, "compare the sums, and write nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) != 1:
			return fmt.Errorf("which backup? Name its directory or archive, or - for standard input")
		case *check && *dir != "":
			return fmt.Errorf("--check writes nothing, and needs no --data-dir")
		case !*check && *dir == "":
			return fmt.Errorf("where to? Say --data-dir DATA, or --check to write nothing")
		}
		return restore(args[0], *dir, *check, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

func restore(from, dir string, check bool, in io.Reader, out, said io.Writer) error {
	p := cli.TerminalProgress(said, "restored", cli.Bytes, 0)
	if check {
		p = cli.TerminalProgress(said, "checked", cli.Bytes, 0)
	}
	source := backup.FromDir(countedFS{segment.OS{}, p}, from)
	if info, err := os.Stat(from); from == "-" || err == nil && !info.IsDir() {
		stream, closeIt, err := open(from, in)
		if err != nil {
			return cli.Failed("nothing was restored: %v", err)
		}
		defer closeIt()
		source = backup.FromStream(p.Reader(stream))
	} else if err != nil {
		return cli.Failed("nothing was restored: %v", err)
	}
	if check {
		m, err := backup.Check(source)
		p.End()
		if err != nil {
			return cli.Failed("%v", err)
		}
		var n int64
		for _, f := range m.Files {
			n += f.Size
		}
		fmt.Fprintf(out, "sound: %s, %s, as of %s\n", cli.Counted(len(m.Files), "file"), cli.Counted(n, "byte"),
			m.Began.Format("2006-01-02 15:04:05 MST"))
		return nil
	}
	r, err := backup.Restore(segment.OS{}, dir, source)
	p.End()
	if errors.Is(err, engine.ErrLocked) {
		return cli.Failed("nothing was restored: %s is in use by %s", dir, cli.Holder(dir))
	}
	if err != nil {
		if _, unmarked := os.Stat(backup.MarkPath(dir)); unmarked == nil {
			return cli.Failed("the restore is not complete: %v; no server starts on %s now, and the next restore there begins anew", err, dir)
		}
		return cli.Failed("nothing was restored: %v", err)
	}
	fmt.Fprintf(out, "%s: %s, %s, %s, as of %s\n", cli.OneLine(dir), cli.Counted(r.Queues, "queue"),
		cli.Counted(r.Items, "item"), cli.Counted(r.Bytes, "byte"), r.Manifest.Began.Format("2006-01-02 15:04:05 MST"))
	for _, q := range r.Withheld {
		fmt.Fprintf(said, "queue %q was damaged before the backup, and a server withholds it: see 'kestrel journal repair'\n", q.Name)
	}
	return nil
}

// countedFS is a file system whose reads a progress counts.
type countedFS struct {
	segment.FS
	progress *cli.Progress
}

// OpenReadOnly implements segment.FS.
func (f countedFS) OpenReadOnly(name string) (segment.File, error) {
	file, err := f.FS.OpenReadOnly(name)
	return countedFile{file, f.progress}, err
}

type countedFile struct {
	segment.File
	progress *cli.Progress
}

// ReadAt implements segment.File.
func (f countedFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.progress.Add(int64(n))
	return n, err
}

// Expect hears how many bytes a backup in a directory has.
func (f countedFS) Expect(bytes int64) { f.progress.Expect(bytes) }
