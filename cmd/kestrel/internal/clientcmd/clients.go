package clientcmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
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

const (
	adminVariable = "KESTREL_ADMIN"
	defaultAdmin  = "127.0.0.1:2223"
	maxAnswer     = 64 << 20 // bytes of an answer that are read
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
				a := adminPort(cmp.Or(*admin, os.Getenv(adminVariable), defaultAdmin))
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
		return cli.Failed("%s answers something else than a list of connections: %v", a, err)
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
	list = []connection{}
	d := json.NewDecoder(bytes.NewReader(answer.Connections))
	if _, err := d.Token(); err != nil {
		return 0, nil, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return 0, nil, err
		}
		var c connection
		if err := d.Decode(&c); err != nil {
			return 0, nil, err
		}
		if c.Number, err = strconv.ParseUint(fmt.Sprint(key), 10, 64); err != nil {
			return 0, nil, err
		}
		list = append(list, c)
	}
	return answer.Matched, list, nil
}

// adminPort is the host:port of a server's admin port.
type adminPort string

// ask sends a request and returns the body of the answer.
func (a adminPort) ask(
	ctx context.Context, within time.Duration, method, command string, query url.Values,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	address := url.URL{Scheme: "http", Host: string(a), Path: "/" + command, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, method, address.String(), nil)
	if err != nil {
		return nil, misused("--admin: %q is no host:port", string(a))
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, cli.Failed("the admin port %s cannot be asked: %v; is admin_port set in the server's configuration?", a, err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxAnswer))
	if err != nil {
		return nil, cli.Failed("the admin port %s: %v", a, err)
	}
	if reply.StatusCode != http.StatusOK {
		return nil, cli.Failed("the admin port %s answers %d: %s", a, reply.StatusCode,
			strings.TrimPrefix(strings.TrimSpace(string(body)), "error processing command: "))
	}
	return body, nil
}
