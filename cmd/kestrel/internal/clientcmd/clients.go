package clientcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// connection is one of the admin port's /connections. Times are milliseconds.
type connection struct {
	Number    uint64           `json:"number"`
	Peer      string           `json:"peer"`
	Protocol  string           `json:"protocol"`
	ClientID  string           `json:"client_id"`
	Age       int64            `json:"age"`
	Idle      int64            `json:"idle"`
	Requests  int64            `json:"requests"`
	Received  int64            `json:"received_bytes"`
	Sent      int64            `json:"sent_bytes"`
	Unread    int64            `json:"unread_bytes"`
	Waiting   string           `json:"waiting"`
	OpenReads int64            `json:"open_reads"`
	ByQueue   map[string]int64 `json:"open_reads_by_queue"`
	Oldest    int64            `json:"oldest_open_read"`
	OldestBy  map[string]int64 `json:"oldest_open_read_by_queue"`
}

// lease is what one client has leased of a queue. Times are milliseconds.
type lease struct {
	Connection uint64 `json:"connection"`
	Peer       string `json:"peer"`
	Protocol   string `json:"protocol"`
	ClientID   string `json:"client_id"`
	User       string `json:"user"`
	Leases     int64  `json:"leases"`
	Oldest     int64  `json:"oldest"`
}

// clientsFlags are the flags of `kestrel clients`.
type clientsFlags struct {
	admin         string
	order         string
	limit         int
	end, giveBack uint64
	leases        bool
}

const adminUsage = "`ADDRESS` of the server's admin port (default $" + cli.AdminVariable + ", or " + cli.DefaultAdmin + ")"

func newClients() *cobra.Command {
	return command{
		usage: "clients [QUEUE] [flags]",
		short: "show who is connected, and who holds a queue's items",
		about: `Lists the connections of one server, those with most open reads first. With QUEUE, only those that wait for
the queue or hold items of it. HOLDS and WAITS name queues. OLDEST is how long the connection has held
the item that it took first; with QUEUE, only items of that count. The admin port of the server answers: set admin_port in its configuration.

Items that Thrift clients get belong to a receipt, and to no connection. --leases lists who took those of QUEUE, even if
the client has gone. It also lists users with a quota, who lease items by any protocol.

If the port asks for a user, that user needs operate and stats *. A token in $KESTREL_TOKEN does as well as a password.
--tls encrypts.

--return-reads gives back what a connection holds, --end closes it as well. Both work on
the server's own machine, and from elsewhere for a user with operate.`,
		examples: `$ kestrel clients
NO  PEER  PROTOCOL  AGE  IDLE  REQUESTS  UNREAD  HOLDS  OLDEST  WAITS
0 connections
$ kestrel clients work --order oldest
NO  PEER  PROTOCOL  AGE  IDLE  REQUESTS  UNREAD  HOLDS  OLDEST  WAITS
0 connections
$ kestrel clients work --leases
NO  PEER  PROTOCOL  CLIENT  USER  LEASES  OLDEST
0 leases
`,
		args: args{0, 1, ""},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			c := new(clientsFlags)
			f.StringVar(&c.admin, "admin", "", adminUsage)
			f.StringVar(&c.order, "order", "open", "`WHAT` comes first: open, oldest, age, idle, requests, received, sent or unread")
			f.IntVar(&c.limit, "limit", 100, "show at most `N`")
			f.Uint64Var(&c.end, "end", 0, "close the connection with this `NUMBER`")
			f.Uint64Var(&c.giveBack, "return-reads", 0, "give back what the connection with this `NUMBER` holds")
			f.BoolVar(&c.leases, "leases", false, "list who has leased items of QUEUE")
			return c.run
		},
	}.cobra()
}

func (c *clientsFlags) run(s *session, args []string) error {
	a := s.adminPort(cmp.Or(c.admin, os.Getenv(cli.AdminVariable), cli.DefaultAdmin))
	switch {
	case c.end != 0 && c.giveBack != 0:
		return misused("--end gives back what the connection holds, so --return-reads says nothing more")
	case c.limit < 1:
		return misused("--limit is a number above zero, and not %d", c.limit)
	case c.leases && len(args) == 0:
		return misused("--leases needs the name of a queue: kestrel clients QUEUE --leases")
	case c.end != 0:
		return s.change(a, "end", c.end, "connection %d is closed")
	case c.giveBack != 0:
		return s.change(a, "return_reads", c.giveBack, "connection %d holds nothing any more")
	}
	query := url.Values{"order": {c.order}, "limit": {strconv.Itoa(c.limit)}}
	queue := ""
	if len(args) == 1 {
		queue = args[0]
		query.Set("queue", queue)
	}
	answer, err := a.connections(s.ctx, s.within, query)
	switch {
	case err != nil:
		return err
	case c.leases && s.json:
		s.print(answer.leases)
	case c.leases:
		s.showLeases(answer.leases)
	case s.json:
		s.print(answer.list)
	default:
		s.showConnections(answer, queue)
	}
	return nil
}

// change has the server do something to a connection.
func (s *session) change(a adminPort, what string, number uint64, said string) error {
	query := url.Values{what: {strconv.FormatUint(number, 10)}}
	if _, err := a.ask(s.ctx, s.within, http.MethodPost, "connections.txt", query); err != nil {
		return err
	}
	if !s.json {
		fmt.Fprintf(s.out, said+"\n", number)
	}
	return nil
}

// connected is the answer of /connections, whose members are in the order that was asked for.
type connected struct {
	matched int64
	list    []connection
	leases  []lease
}

// connections asks who is connected.
func (a adminPort) connections(ctx context.Context, within time.Duration, query url.Values) (connected, error) {
	body, err := a.ask(ctx, within, http.MethodGet, "connections.json", query)
	if err != nil {
		return connected{}, err
	}
	answer, err := parseConnections(body)
	if err != nil {
		return connected{}, cli.Failed("%s answers something else than a list of connections: %v", a.address, err)
	}
	return answer, nil
}

// showConnections prints those that hold items of a queue or wait for it; of any queue if it is "".
func (s *session) showConnections(answer connected, queue string) {
	rows := [][]string{{"NO", "PEER", "PROTOCOL", "AGE", "IDLE", "REQUESTS", "UNREAD", "HOLDS", "OLDEST", "WAITS"}}
	for _, c := range answer.list {
		rows = append(rows, []string{strconv.FormatUint(c.Number, 10), c.Peer, c.Protocol, ageOf(c.Age), ageOf(c.Idle),
			figures.Thousands(c.Requests), figures.Bytes(c.Unread), c.holds(), c.oldest(queue), cli.OneLine(c.Waiting)})
	}
	s.tableLeft(rows, "PEER", "HOLDS", "WAITS")
	fmt.Fprint(s.out, cli.Counted(answer.matched, "connection"))
	if int64(len(answer.list)) < answer.matched {
		fmt.Fprintf(s.out, ", of which %s are shown", figures.Thousands(int64(len(answer.list))))
	}
	fmt.Fprintln(s.out)
	if n := countLeases(answer.leases); n > 0 {
		fmt.Fprintf(s.out, "%s beside what connections hold: --leases says who took them\n", cli.Counted(n, "lease"))
	}
}

// showLeases prints who has leased items.
func (s *session) showLeases(list []lease) {
	rows := [][]string{{"NO", "PEER", "PROTOCOL", "CLIENT", "USER", "LEASES", "OLDEST"}}
	for _, l := range list {
		number := ""
		if l.Connection > 0 {
			number = strconv.FormatUint(l.Connection, 10)
		}
		rows = append(rows, []string{number, l.Peer, l.Protocol, cli.OneLine(l.ClientID), cli.OneLine(l.User),
			figures.Thousands(l.Leases), ageOf(l.Oldest)})
	}
	s.tableLeft(rows, "PEER", "CLIENT", "USER")
	fmt.Fprintln(s.out, cli.Counted(countLeases(list), "lease"))
}

func countLeases(list []lease) (n int64) {
	for _, l := range list {
		n += l.Leases
	}
	return n
}

func ageOf(millis int64) string { return cli.Age(time.Duration(millis) * time.Millisecond) }

// holds returns the queues whose items a connection holds, with their numbers.
func (c *connection) holds() string {
	var parts []string
	for queue, n := range c.ByQueue {
		parts = append(parts, fmt.Sprintf("%s:%s", cli.OneLine(queue), figures.Thousands(n)))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// oldest returns how long the connection has held the oldest item of a queue, or of any if that is "".
func (c *connection) oldest(queue string) string {
	oldest := c.Oldest
	if queue != "" {
		oldest = c.OldestBy[queue]
	}
	if c.OpenReads == 0 || queue != "" && c.ByQueue[queue] == 0 {
		return ""
	}
	return ageOf(oldest)
}

// parseConnections reads the answer of /connections.
func parseConnections(body []byte) (c connected, err error) {
	var answer struct {
		Matched     int64           `json:"matched"`
		Connections json.RawMessage `json:"connections"`
		Leases      json.RawMessage `json:"leases"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return c, err
	}
	c.matched, c.leases = answer.Matched, []lease{}
	if c.list, err = inOrder(answer.Connections, func(name string, c *connection) (err error) {
		c.Number, err = strconv.ParseUint(name, 10, 64)
		return err
	}); err == nil && answer.Leases != nil {
		c.leases, err = inOrder[lease](answer.Leases, nil)
	}
	return c, err
}
