package clientcmd

import (
	"cmp"
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
}

func newClients() *cobra.Command {
	return command{
		usage: "clients [QUEUE] [flags]",
		short: "show who is connected, and who holds a queue's items",
		about: `Lists the connections of one server, those with most open reads first. With QUEUE, only those that wait for
the queue or hold items of it. HOLDS and WAITS name queues. The admin port of the server answers: set admin_port
in its configuration.

If the port asks for a user, that user needs operate and stats *. A token in $KESTREL_TOKEN does as well as a password.
--tls encrypts.

--return-reads gives back what a connection holds, --end closes it as well. Both work from the server's own machine.`,
		examples: `$ kestrel clients
NO  PEER  PROTOCOL  AGE  IDLE  REQUESTS  UNREAD  HOLDS  WAITS
0 connections
`,
		args: args{0, 1, ""},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			admin := f.String("admin", "", "`ADDRESS` of the server's admin port (default $"+adminVariable+", or "+defaultAdmin+")")
			order := f.String("order", "open", "what comes first: open, age, idle, requests, received, sent or unread")
			limit := f.Int("limit", 100, "show at most `N`")
			end := f.Uint64("end", 0, "close the connection with this `NUMBER`")
			giveBack := f.Uint64("return-reads", 0, "give back what the connection with this `NUMBER` holds")
			return func(s *session, args []string) error {
				a := s.adminPort(cmp.Or(*admin, os.Getenv(adminVariable), defaultAdmin))
				switch {
				case *end != 0 && *giveBack != 0:
					return misused("--end gives back what the connection holds, so --return-reads says nothing more")
				case *limit < 1:
					return misused("--limit is a number above zero, and not %d", *limit)
				case *end != 0:
					return s.change(a, "end", *end, "connection %d is closed")
				case *giveBack != 0:
					return s.change(a, "return_reads", *giveBack, "connection %d holds nothing any more")
				}
				query := url.Values{"order": {*order}, "limit": {strconv.Itoa(*limit)}}
				if len(args) == 1 {
					query.Set("queue", args[0])
				}
				return s.showConnections(a, query)
			}
		},
	}.cobra()
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

// showConnections prints the connections that a query finds.
func (s *session) showConnections(a adminPort, query url.Values) error {
	body, err := a.ask(s.ctx, s.within, http.MethodGet, "connections.json", query)
	if err != nil {
		return err
	}
	matched, list, err := parseConnections(body)
	if err != nil {
		return cli.Failed("%s answers something else than a list of connections: %v", a.address, err)
	}
	if s.json {
		s.print(list)
		return nil
	}
	rows := [][]string{{"NO", "PEER", "PROTOCOL", "AGE", "IDLE", "REQUESTS", "UNREAD", "HOLDS", "WAITS"}}
	for _, c := range list {
		rows = append(rows, []string{strconv.FormatUint(c.Number, 10), c.Peer, c.Protocol, ageOf(c.Age), ageOf(c.Idle),
			figures.Thousands(c.Requests), figures.Bytes(c.Unread), c.holds(), cli.OneLine(c.Waiting)})
	}
	s.table(rows)
	plural := "s"
	if matched == 1 {
		plural = ""
	}
	fmt.Fprintf(s.out, "%s connection%s", figures.Thousands(matched), plural)
	if int64(len(list)) < matched {
		fmt.Fprintf(s.out, ", of which %d are shown", len(list))
	}
	fmt.Fprintln(s.out)
	return nil
}

func ageOf(millis int64) string { return cli.Age(time.Duration(millis) * time.Millisecond) }

// holds returns the queues whose items a connection holds, with their numbers.
func (c *connection) holds() string {
	var parts []string
	for queue, n := range c.ByQueue {
		parts = append(parts, fmt.Sprintf("%s:%d", cli.OneLine(queue), n))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// parseConnections reads the answer of /connections, whose members are in the order that was asked for.
func parseConnections(body []byte) (matched int64, list []connection, err error) {
	var answer struct {
		Matched     int64           `json:"matched"`
		Connections json.RawMessage `json:"connections"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, nil, err
	}
	list, err = inOrder(answer.Connections, func(name string, c *connection) (err error) {
		c.Number, err = strconv.ParseUint(name, 10, 64)
		return err
	})
	return answer.Matched, list, err
}
