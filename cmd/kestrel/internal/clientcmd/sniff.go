package clientcmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// heard is what the admin port's /sniff answers.
type heard struct {
	Seconds  float64         `json:"seconds"`
	Requests int64           `json:"requests"`
	Beyond   int64           `json:"beyond"`
	Kinds    int64           `json:"kinds"`
	Asked    json.RawMessage `json:"asked"`
}

// askedKind is a kind of requests. Sizes are bytes.
type askedKind struct {
	Request  string `json:"request"`
	Queue    string `json:"queue"`
	Client   string `json:"client"`
	Protocol string `json:"protocol"`
	Requests int64  `json:"requests"`
	PutItems int64  `json:"put_items"`
	PutBytes int64  `json:"put_bytes"`
	PutP50   int64  `json:"put_size_p50"`
	PutP99   int64  `json:"put_size_p99"`
	PutMax   int64  `json:"put_size_max"`
	GotItems int64  `json:"got_items"`
	GotBytes int64  `json:"got_bytes"`
	GotP50   int64  `json:"got_size_p50"`
	GotP99   int64  `json:"got_size_p99"`
	GotMax   int64  `json:"got_size_max"`
}

type sniffFlags struct {
	admin string
	most  time.Duration
	by    string
	limit int
}

func newSniff() *cobra.Command {
	return command{
		usage: "sniff [PATTERN...] [flags]",
		short: "what clients ask: rates and sizes by queue and client",
		about: `Listens to the requests of one server for a while. It lists what clients asked of all queues, or of those that match
one of the patterns, the most frequent requests first. A line has the requests, items and bytes in a second. Its last
three columns are sizes: half of the items, 99 % of them, and all of them are at most that large. A client is the host
that it comes from, with its user or the name that it gives itself.

The admin port of the server answers clients on its own machine, and users with the rights stats and operate. One
client can listen at a time. The server keeps a few MB at most meanwhile, and nothing while nobody listens.`,
		examples: `$ while kestrel put work hello; do :; done >/dev/null & kestrel sniff --by queue --for 3s; kill %1
… in 3.… s
REQUEST  QUEUE  REQ/s  ITEMS/s  BYTES/s  50%  99%  MAX
set       work  …                        5 B  5 B  5 B
`,
		args: args{0, -1, ""},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			n := new(sniffFlags)
			f.DurationVar(&n.most, "for", 10*time.Second, "how long to listen, 5m at most")
			f.StringVar(&n.by, "by", "all", "`WHAT` to tell apart beside requests: queue, client, or all")
			f.IntVar(&n.limit, "limit", 50, "show at most `N` lines")
			f.StringVar(&n.admin, "admin", "", "`ADDRESS` of the server's admin port (default $"+cli.AdminVariable+", or "+cli.DefaultAdmin+")")
			return n.run
		},
	}.cobra()
}

func (n *sniffFlags) run(s *session, patterns []string) error {
	switch {
	case n.most < time.Millisecond || n.most > 5*time.Minute:
		return misused("--for is a time up to 5m, and not %v", n.most)
	case n.by != "all" && n.by != "queue" && n.by != "client":
		return misused("--by is queue, client or all, and not %q", n.by)
	case n.limit < 1 || n.limit > 10_000:
		return misused("--limit is a number from 1 to 10000, and not %d", n.limit)
	}
	query := url.Values{"by": {n.by}, "limit": {strconv.Itoa(n.limit)}, "queue": patterns,
		"seconds": {strconv.FormatFloat(n.most.Seconds(), 'f', -1, 64)}}
	a := s.adminPort(cmp.Or(n.admin, os.Getenv(cli.AdminVariable), cli.DefaultAdmin))
	body, err := a.ask(s.ctx, n.most+s.within, http.MethodGet, "sniff.json", query)
	if err != nil {
		return err
	}
	var h heard
	err = json.Unmarshal(body, &h)
	var kinds []askedKind
	if err == nil {
		kinds, err = inOrder[askedKind](h.Asked, nil)
	}
	if err != nil {
		return cli.Failed("%s answers something else than what clients ask: %v", a.address, err)
	}
	if s.json {
		s.print(struct {
			Seconds  float64     `json:"seconds"`
			Requests int64       `json:"requests"`
			Beyond   int64       `json:"beyond"`
			Kinds    int64       `json:"kinds"`
			Asked    []askedKind `json:"asked"`
		}{h.Seconds, h.Requests, h.Beyond, h.Kinds, kinds})
		return nil
	}
	n.show(s, h, kinds)
	return nil
}

// show prints a table, with the columns that n tells apart.
func (n *sniffFlags) show(s *session, h heard, kinds []askedKind) {
	head := []string{"REQUEST"}
	if n.by != "client" {
		head = append(head, "QUEUE")
	}
	if n.by != "queue" {
		head = append(head, "CLIENT", "PROTOCOL")
	}
	rows := [][]string{append(head, "REQ/s", "ITEMS/s", "BYTES/s", "50%", "99%", "MAX")}
	rate := func(count int64) int64 { return int64(float64(count)/h.Seconds + 0.5) }
	for _, k := range kinds {
		row := []string{k.Request}
		if n.by != "client" {
			row = append(row, cmp.Or(cli.OneLine(k.Queue), "-"))
		}
		if n.by != "queue" {
			row = append(row, cli.OneLine(k.Client), k.Protocol)
		}
		row = append(row, figures.Thousands(rate(k.Requests)), figures.Thousands(rate(k.PutItems+k.GotItems)),
			figures.Bytes(rate(k.PutBytes+k.GotBytes)))
		if k.PutItems+k.GotItems == 0 {
			row = append(row, "-", "-", "-")
		} else { // one of the two has none
			row = append(row, figures.Bytes(k.PutP50+k.GotP50), figures.Bytes(k.PutP99+k.GotP99), figures.Bytes(max(k.PutMax, k.GotMax)))
		}
		rows = append(rows, row)
	}
	fmt.Fprintf(s.out, "%s in %.1f s\n", cli.Counted(h.Requests, "request"), h.Seconds)
	s.table(rows)
	var more []string
	if left := h.Kinds - int64(len(kinds)); left > 0 {
		more = append(more, fmt.Sprintf("%s more are not shown: see --limit", cli.Counted(left, "line")))
	}
	if h.Beyond > 0 {
		more = append(more, fmt.Sprintf("%s were of too many queues and clients to tell apart", cli.Counted(h.Beyond, "request")))
	}
	if len(more) > 0 {
		fmt.Fprintln(s.out, strings.Join(more, "; "))
	}
}
