package journalcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/segment"
)

const inspectPage = `Usage:
    kestrel journal inspect [QUEUE...] --data-dir DATA [--config FILE] [--json]

Shows what a data directory holds: its queues, the segments of its journal, and
where that is torn, if it is. With QUEUE, the items of these queues instead,
oldest first: id, size, when added, when they expire, flags, and how the data
begins.
It changes nothing; no server may run on DATA.

Flags:
    --json
        one JSON object; with QUEUE, one for each item, in a line of its own,
        with all of the data in base64. Times are ms since 1970
    --config FILE, --data-dir DATA
        the data directory

Example:
    $ kestrel journal inspect work --data-dir data
    work 1: 5 bytes, added …, expires never, flags 0: "hello"
    work 2: 5 bytes, added …, expires never, flags 0: "world"

Exit status: 0 if everything could be read; 1 if not; 2 if the flags or the
configuration are wrong; 4 if the journal is damaged.
`

func newJournalInspect() *cobra.Command {
	cmd := &cobra.Command{
		Use: "inspect [QUEUE...]", Short: "show what a data directory holds", Long: inspectPage,
	}
	data := dataFlags(cmd)
	asJSON := cmd.Flags().Bool("json", false, "for programs")
	cmd.RunE = func(cmd *cobra.Command, queues []string) error {
		out, said := cmd.OutOrStdout(), cmd.ErrOrStderr()
		return data.read(said, func(c *config.Config, s *engine.Snapshot) error {
			if len(queues) > 0 {
				var p *cli.Progress
				if !cli.IsTerminal(out) { // the items themselves show it there
					p = cli.TerminalProgress(said, "written", cli.Items, itemsOf(s, queues))
				}
				defer p.End()
				return inspectItems(out, s, queues, *asJSON, p)
			}
			in, err := inspectionOf(c, s)
			if err != nil {
				return err
			}
			if *asJSON {
				return json.NewEncoder(out).Encode(in)
			}
			in.print(out, engine.Now())
			return nil
		})
	}
	return cmd
}

// read calls f with what the data directory holds; nobody changes it meanwhile. It returns a
// *failure if that cannot be read. A terminal behind said sees how far the reading is.
func (p *dataPlace) read(said io.Writer, f func(*config.Config, *engine.Snapshot) error) error {
	c, err := p.load()
	if err == nil {
		err = checkRestored(c.Engine.Dir) // its files may be cut short, and are not damaged
	}
	if err != nil {
		return err
	}
	s, err := inspectOn(said, c)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cli.Failed("there is no journal in %s", c.Engine.Dir)
	case errors.Is(err, segment.ErrCorrupt):
		return &cli.Failure{Code: cli.ExitDamage, Text: config.Explain(err, c).Text}
	case err != nil:
		return config.Explain(err, c)
	}
	defer s.Close()
	if err := explainWithheld(s); err != nil {
		return err
	}
	return f(c, s)
}

// inspectOn is engine.Inspect, and shows on a terminal how far it is.
func inspectOn(said io.Writer, c *config.Config) (*engine.Snapshot, error) {
	c.Engine.Progress = new(engine.Progress)
	defer cli.Watch(said, "read", cli.Bytes, c.Engine.Progress.Bytes)()
	return engine.Inspect(c.Engine)
}

// itemsOf returns how many items the queues called names have.
func itemsOf(s *engine.Snapshot, names []string) (n int64) {
	items := make(map[string]int64, len(s.Queues))
	for _, q := range s.Queues {
		items[q.Name] = q.Items
	}
	for _, name := range names {
		n += items[name]
	}
	return n
}

// inspection is what inspect shows. Its names are those of --json.
type inspection struct {
	DataDir          string             `json:"data_dir"`
	Torn             *inspectedTear     `json:"torn"`              // null: it ends cleanly
	UnfinishedImport *string            `json:"unfinished_import"` // the directory; null: none
	JournalBytes     int64              `json:"journal_bytes"`     // of frames
	Segments         []inspectedSegment `json:"segments"`
	Queues           []inspectedQueue   `json:"queues"`
}

type inspectedTear struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Reason string `json:"reason"`
}

type inspectedSegment struct {
	Number    uint64           `json:"number"`
	Base      segment.Position `json:"base"`
	End       segment.Position `json:"end"`
	DiskBytes int64            `json:"disk_bytes"`
}

type inspectedQueue struct {
	Name    string      `json:"name"`
	Items   int64       `json:"items"`
	Bytes   int64       `json:"bytes"`
	NextID  uint64      `json:"next_id"`
	Created engine.Time `json:"created"`
	Oldest  engine.Time `json:"oldest"` // 0 without items
	Newest  engine.Time `json:"newest"`
}

func inspectionOf(c *config.Config, s *engine.Snapshot) (*inspection, error) {
	in := &inspection{
		DataDir: c.Engine.Dir, Segments: []inspectedSegment{}, Queues: []inspectedQueue{},
	}
	mark, err := loadImportMark(c.Engine.Dir)
	if err != nil {
		return nil, cli.Failed("%s", err)
	}
	if mark != nil {
		in.UnfinishedImport = &mark.Source
	}
	if t := s.Tear; t != nil {
		in.Torn = &inspectedTear{t.Path, t.Offset, t.Reason}
	}
	for _, g := range s.Segments {
		in.JournalBytes += int64(g.End - g.Base)
		in.Segments = append(in.Segments, inspectedSegment{g.Number, g.Base, g.End, g.Size})
	}
	for _, q := range s.Queues {
		in.Queues = append(in.Queues, inspectedQueue{
			q.Name, q.Items, q.Bytes, q.NextID, q.Created, q.Oldest, q.Newest,
		})
	}
	return in, nil
}

// print writes the inspection for people. On a terminal it fits the width.
func (in *inspection) print(w io.Writer, now engine.Time) {
	width := cli.Width(w)
	fmt.Fprintf(w, "data directory %s\n", in.DataDir)
	if in.UnfinishedImport != nil {
		fmt.Fprintln(w, cli.Hang(fmt.Sprintf("NOT FINISHED: an import of %s; no server starts before it is",
			*in.UnfinishedImport), 2, width))
	}
	ends := "the journal ends cleanly"
	if t := in.Torn; t != nil {
		ends = fmt.Sprintf("torn at the end, as a power cut leaves it: %s, offset %d: %s", t.Path, t.Offset, t.Reason)
	}
	fmt.Fprintf(w, "%s\n\n", cli.Hang(ends, 2, width))
	if width == 0 {
		in.printTables(w, now)
		return
	}
	cli.WriteTable(w, in.segmentRows(), []string{"bytes on disk", "from"}, width)
	fmt.Fprintln(w)
	cli.WriteTable(w, in.queueRows(now), []string{"next id", "created", "oldest", "bytes"}, width)
}

// printTables prints segments and queues in columns that are always as wide, for scripts that read them.
func (in *inspection) printTables(w io.Writer, now engine.Time) {
	fmt.Fprintf(w, "%-12s %16s %16s %14s\n", "segment", "from", "to", "bytes on disk")
	for _, r := range in.segmentRows()[1:] {
		fmt.Fprintf(w, "%s   %16s %16s %14s\n", r[3], r[0], r[1], r[2])
	}
	fmt.Fprintln(w)
	for _, r := range in.queueRows(now) {
		fmt.Fprintf(w, "%12s %16s %12s %12s  %-10s %s\n", r[0], r[1], r[2], r[3], r[4], r[5])
	}
}

// segmentRows are the segments, a row for each.
func (in *inspection) segmentRows() [][]string {
	rows := [][]string{{"from", "to", "bytes on disk", "segment"}}
	for _, g := range in.Segments {
		rows = append(rows, []string{fmt.Sprint(g.Base), fmt.Sprint(g.End), figures.Thousands(g.DiskBytes), fmt.Sprintf("%010d", g.Number)})
	}
	return rows
}

// queueRows are the queues, a row for each, and their sums.
func (in *inspection) queueRows(now engine.Time) [][]string {
	rows := [][]string{{"items", "bytes", "next id", "oldest", "created", "queue"}}
	var items, bytes int64
	for _, q := range in.Queues {
		oldest := "-"
		if q.Items > 0 {
			oldest = ago(now, q.Oldest)
		}
		rows = append(rows, []string{
			figures.Thousands(q.Items), figures.Thousands(q.Bytes), fmt.Sprint(q.NextID), oldest,
			q.Created.Std().UTC().Format(time.DateOnly), cli.OneLine(q.Name),
		})
		items += q.Items
		bytes += q.Bytes
	}
	return append(rows, []string{
		figures.Thousands(items), figures.Thousands(bytes), "", "", "", "in " + cli.Counted(len(in.Queues), "queue"),
	})
}

// ago is how long before now t was, in whole units that a reader takes in at a glance.
func ago(now, t engine.Time) string {
	d := time.Duration(now-t) * time.Millisecond
	switch {
	case d < 0:
		return "in future"
	case d < time.Second:
		return d.String()
	case d < 48*time.Hour:
		return d.Truncate(time.Second).String()
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// inspectedItem is an item of inspect QUEUE --json.
type inspectedItem struct {
	Queue  string      `json:"queue"`
	ID     uint64      `json:"id"`
	Added  engine.Time `json:"added"`
	Expiry engine.Time `json:"expiry"` // 0: never
	Flags  uint32      `json:"flags"`
	Data   []byte      `json:"data"`
}

// shownData is how many bytes of an item's data a line shows.
const shownData = 60

func inspectItems(w io.Writer, s *engine.Snapshot, queues []string, asJSON bool, p *cli.Progress) (err error) {
	out, width := json.NewEncoder(w), cli.Width(w)
	for _, name := range queues {
		failure := s.Each(name, func(it engine.Item) bool {
			p.Add(1)
			if asJSON {
				err = out.Encode(inspectedItem{name, it.ID, it.Added, it.Expiry, it.Flags, it.Data})
				return err == nil
			}
			expires := "never"
			if it.Expiry != 0 {
				expires = it.Expiry.Std().UTC().Format(time.RFC3339)
			}
			about := fmt.Sprintf("%s %d: %s, added %s, expires %s, flags %d:", cli.OneLine(name),
				it.ID, cli.Counted(len(it.Data), "byte"), it.Added.Std().UTC().Format(time.RFC3339), expires, it.Flags)
			_, err = fmt.Fprintln(w, itemLine(about, it.Data, width))
			return err == nil
		})
		if errors.Is(failure, fs.ErrNotExist) {
			return cli.Failed("there is no queue %q", name)
		}
		if failure != nil {
			return failure
		}
		if err != nil {
			return cli.Failed("write the items of %q: %s", name, err)
		}
	}
	return nil
}

// itemLine is an item for people: what is known of it, and how its data begins. On a terminal the data has a line of its
// own unless all fits one. A width of 0 is no terminal.
func itemLine(about string, data []byte, width int) string {
	begins := fmt.Sprintf("%q", data[:min(len(data), shownData)])
	if len(data) > shownData {
		begins += "…"
	}
	if line := about + " " + begins; width == 0 || ansi.StringWidth(line) <= width {
		return line
	}
	const indent = 4
	return cli.Hang(about, indent, width) + "\n" + strings.Repeat(" ", indent) + ansi.Truncate(begins, width-indent, "…")
}
