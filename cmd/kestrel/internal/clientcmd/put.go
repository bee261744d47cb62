package clientcmd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/segment"
)

const (
	// gatherItems and gatherBytes bound what is put with one call.
	gatherItems = 1000
	gatherBytes = 1 << 20
)

type putFlags struct {
	null  bool
	files []string
	ttl   time.Duration
	delay time.Duration
	key   string
	only  string
	flags uint32
}

func newPut() *cobra.Command {
	return command{
		usage: "put QUEUE [ITEM...] [flags]",
		short: "put items into a queue",
		about: `Puts each ITEM into a queue, which comes into being with it. Without ITEM and --file, each line of
standard input is an item, without its line end.

Items go to the servers in turn. They are stored when the command says so. The server's sync_journal says
how safe they are then. The first item that is refused ends the command.

With --delay the items are hidden for that time. With --key the one item takes the place of the item with that
key, if the queue has one. --only new puts it only if there is none, and --only replace only if there is one.`,
		examples: `$ kestrel put work hello world
2 items put into "work"
$ seq 1000 | kestrel put numbers --ttl 1h
1,000 items put into "numbers"
$ find . -name '*.jpg' -print0 | kestrel put images --null
0 items put into "images"
$ kestrel put reminders --delay 1h 'call back'
1 item put into "reminders"
$ kestrel put orders --key 4711 '3 apples'
1 item put into "orders"
$ kestrel put orders --key 4711 --only new '4 apples'
0 items put into "orders", and 1 item not
kestrel: put to "orders" on …, or an item has the key "4711"; 'kestrel stat' shows what the queue holds
`,
		args: args{1, -1, "a queue"},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			p := new(putFlags)
			f.BoolVarP(&p.null, "null", "0", false, "items in standard input end in NUL, and not with their line")
			f.StringArrayVar(&p.files, "file", nil, "`FILE` that is an item, whole; - is standard input. May be given several times")
			f.DurationVar(&p.ttl, "ttl", 0, "time after which an item is not delivered any more (default never)")
			f.DurationVar(&p.delay, "delay", 0, "time for which the items are hidden")
			f.StringVar(&p.key, "key", "", "`KEY` of the item, whose place it takes")
			f.StringVar(&p.only, "only", "", "`WHEN` to put the item with --key: new, if none has the key, or replace, if one has")
			f.Uint32Var(&p.flags, "flags", 0, "`NUMBER` that is kept with each item")
			return func(s *session, args []string) error {
				if f.Changed("key") && p.key == "" {
					return misused("--key is not empty")
				}
				return p.run(s, args)
			}
		},
	}.cobra()
}

func (p *putFlags) run(s *session, args []string) error {
	queue, items := args[0], args[1:]
	s.in = cli.Heed(s.ctx, s.in)
	if p.ttl < 0 {
		return misused("--ttl is a time above zero, and not %v", p.ttl)
	}
	if len(items) > 0 && (len(p.files) > 0 || p.null) {
		return misused("items are arguments, files, or standard input: say one of them")
	}
	if len(p.files) > 0 && p.null {
		return misused("--null is about standard input, and --file reads whole files")
	}
	switch {
	case p.delay < 0:
		return misused("--delay is a time above zero, and not %v", p.delay)
	case p.only != "" && p.only != "new" && p.only != "replace":
		return misused("--only is new or replace, and not %q", p.only)
	case p.only != "" && p.key == "":
		return misused("--only is about the item with a --key")
	case p.key != "" && len(items)+len(p.files) != 1:
		return misused("--key is for one item, which is an argument or a --file")
	}
	g := &gatherer{session: s, queue: queue, options: client.PutOptions{
		Flags: p.flags, TTL: p.ttl, Delay: p.delay, Key: p.key, New: p.only == "new", Replace: p.only == "replace",
	}}
	err := p.wordKey(p.each(s, items, g.add))
	if err == nil {
		err = p.wordKey(g.put())
	}
	if err == nil || g.stored+g.failed+g.unknown > 0 {
		g.report()
	}
	return err
}

// wordKey adds why an item with a key may not have been taken.
func (p *putFlags) wordKey(err error) error {
	if p.only == "" || !errors.Is(err, client.ErrNotStored) {
		return err
	}
	has := "an item has"
	if p.only == "replace" {
		has = "no item has"
	}
	return fmt.Errorf("%w, or %s the key %q", err, has, p.key)
}

// each hands every item to add, which says if there may be more at once or only later.
func (p *putFlags) each(s *session, items []string, add func(item []byte, more bool) error) error {
	switch {
	case len(items) > 0:
		for _, item := range items {
			if err := add([]byte(item), true); err != nil {
				return err
			}
		}
		return nil
	case len(p.files) > 0:
		for _, name := range p.files {
			data, err := readFile(s, name)
			if err != nil {
				return fmt.Errorf("read an item from %s: %w", nameOf(name, "standard input"), segment.Cause(err))
			}
			if err := add(data, true); err != nil {
				return err
			}
		}
		return nil
	}
	end := byte('\n')
	if p.null {
		end = 0
	}
	return pieces(s, end, add)
}

func readFile(s *session, name string) ([]byte, error) {
	if name == "-" {
		return cli.ReadItem(s.in)
	}
	file := &lateFile{name: name}
	item, err := cli.ReadItem(cli.Heed(s.ctx, file))
	if s.ctx.Err() == nil { // or a Read that is left behind may still use it
		file.close()
	}
	return item, err
}

// lateFile is a file that is opened when it is first read. Opening a named pipe waits for its writer, and a signal has to
// end that wait.
type lateFile struct {
	name string
	file *os.File
}

// Read implements io.Reader.
func (l *lateFile) Read(p []byte) (n int, err error) {
	if l.file == nil {
		if l.file, err = os.Open(l.name); err != nil {
			return 0, err
		}
	}
	return l.file.Read(p)
}

func (l *lateFile) close() {
	if l.file != nil {
		l.file.Close()
	}
}

// nameOf is what a file is called of which - is a stream.
func nameOf(file, stream string) string {
	if file == "-" {
		return stream
	}
	return file
}

// pieces hands the pieces of standard input to add, without their ends.
func pieces(s *session, end byte, add func(item []byte, more bool) error) error {
	in := bufio.NewReaderSize(s.in, 256<<10)
	for n := 1; ; n++ {
		var item []byte
		for {
			part, err := in.ReadSlice(end)
			item = append(item, part...)
			if len(item) > cli.MaxItem+1 {
				return cli.Failed("item %d of standard input is larger than 32 MiB, which no server takes; "+
					"do the pieces end as they should? See --null", n)
			}
			if err == bufio.ErrBufferFull {
				continue
			}
			if err == io.EOF && len(item) == 0 {
				return nil
			}
			if err != nil && err != io.EOF {
				return fmt.Errorf("read standard input: %w", err)
			}
			break
		}
		item = bytes.TrimSuffix(item, []byte{end})
		next, _ := in.Peek(in.Buffered())
		if err := add(item, bytes.IndexByte(next, end) >= 0); err != nil { // a part of an item may be long in coming whole
			return err
		}
	}
}

// gatherer puts items, many with each call as long as they come at once.
type gatherer struct {
	session *session
	queue   string
	options client.PutOptions
	items   [][]byte
	size    int

	stored, failed, unknown int64 // items that are there, are not, and may be
}

// add takes one item; more says that the next is there already.
func (g *gatherer) add(item []byte, more bool) error {
	g.items = append(g.items, item)
	g.size += len(item)
	if more && len(g.items) < gatherItems && g.size < gatherBytes {
		return nil
	}
	return g.put()
}

// put puts what has gathered.
func (g *gatherer) put() error {
	if len(g.items) == 0 {
		return nil
	}
	err := g.session.client.PutAll(g.session.ctx, g.queue, g.items, g.options)
	var batch *client.BatchError
	switch {
	case err == nil:
		g.session.place.answered = true
		g.stored += int64(len(g.items))
	case errors.As(err, &batch):
		for _, e := range batch.Items {
			switch {
			case e == nil:
				g.stored++
			case errors.Is(e, client.ErrUnknownOutcome):
				g.unknown++
			default:
				g.failed++
			}
		}
		err = errors.Unwrap(batch)
	}
	g.items, g.size = g.items[:0], 0
	return err
}

// report says how many items are stored.
func (g *gatherer) report() {
	if g.session.json {
		g.session.print(struct {
			Queue   string `json:"queue"`
			Stored  int64  `json:"stored"`
			Failed  int64  `json:"failed"`
			Perhaps int64  `json:"perhaps"`
		}{g.queue, g.stored, g.failed, g.unknown})
		return
	}
	fmt.Fprintf(g.session.out, "%s put into %q", cli.Counted(g.stored, "item"), g.queue)
	if g.failed > 0 {
		fmt.Fprintf(g.session.out, ", and %s not", cli.Counted(g.failed, "item"))
	}
	if g.unknown > 0 {
		fmt.Fprintf(g.session.out, ", and %s perhaps", cli.Counted(g.unknown, "item"))
	}
	fmt.Fprintln(g.session.out)
}

// print writes a line of JSON.
func (s *session) print(v any) {
	enc := json.NewEncoder(s.out)
	enc.SetEscapeHTML(false)
	enc.Encode(v) // what it writes to reports its error at the end
}
