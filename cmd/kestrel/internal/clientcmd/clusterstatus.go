package clientcmd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// ofServers is c, whose arguments are servers.
func ofServers(c command) *cobra.Command {
	cmd := c.cobra()
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// servers returns the members of both sets, each once, in the order of their names.
func (s *session) servers() []string {
	m := s.client.Members()
	all := slices.Concat(m.Read, m.Write)
	slices.Sort(all)
	return slices.Compact(all)
}

// of returns a session of the servers that args name, of all of them without args. They stay the same whatever
// the sets say meanwhile. Close its client.
func (s *session) of(args []string) (*session, error) {
	list := s.servers()
	if len(args) > 0 {
		var err error
		if list, err = client.ParseAddress(strings.Join(args, ",")); err != nil {
			return nil, misused("%v", err)
		}
	}
	if len(list) == 0 {
		return nil, cli.Failed("%v: the sets of --server are empty", client.ErrNoServers)
	}
	c, err := s.place.dial(s.ctx, s.place.addressOf(list), s.within)
	if err != nil {
		return nil, err
	}
	sub := *s
	sub.client = c
	return &sub, nil
}

// addressOf is the address of some servers of the place, with what its own says of how to connect.
func (p *place) addressOf(servers []string) string {
	list := strings.Join(servers, ",")
	scheme, hosts, ok := strings.Cut(p.server, "://")
	if !ok || scheme != "kestrel" && scheme != "kestrels" {
		return list
	}
	return scheme + "://" + hosts[:strings.LastIndexByte(hosts, '@')+1] + list
}

// whyOf is what failed, without what it failed on.
func whyOf(err error) string {
	var e *client.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	return err.Error()
}

// unanswered says which servers of stats gave no figures, and what to do about the first; nil if all gave them.
func (s *session) unanswered(stats []client.ServerStats) error {
	var without []string
	var first error
	for _, server := range stats {
		if server.Err != nil {
			without = append(without, server.Server+" ("+whyOf(server.Err)+")")
			first = cmpError(first, server.Err)
		}
	}
	if first == nil {
		return nil
	}
	text := fmt.Sprintf("%d of %s gave no figures, and what is printed is without: %s",
		len(without), cli.Counted(len(stats), "server"), cli.ListOf(without))
	return cli.Failed("%s", s.advised(text, first))
}

// advised is a text with what to do about an error behind it, if there is something.
func (s *session) advised(text string, err error) string {
	if _, advice := s.place.advise(err); advice != "" {
		text += "; " + advice
	}
	return text
}

// memberView is a server in JSON.
type memberView struct {
	serverView
	Sets      []string `json:"sets"`
	OpenReads int64    `json:"open_reads"`
}

func newClusterStatus() *cobra.Command {
	return ofServers(command{
		group: "cluster",
		usage: "status [SERVER...] [flags]",
		short: "what each server is and holds; --set changes its status",
		about: `Lists the servers, or those that are named: status, the sets they are in, and what they hold. --set gives them
another status first: Up, WriteAvoid (asks producers to go elsewhere), ReadOnly (takes no puts) or Quiescent (neither puts
nor gets). A status that is stricter is enforced after the server's status_change_grace_period. The command says how many
servers that concerns and asks first; without a terminal it needs --yes.`,
		examples: `$ kestrel put work hello
1 item put into "work"
$ kestrel cluster status
SERVER  STATUS  SETS  VERSION  UPTIME  CONNECTIONS  QUEUES  ITEMS  OPEN  BYTES
127.0.0.1:…  UP  read write  …  1  1  0  5 B
$ kestrel cluster status --set ReadOnly --yes
SERVER  STATUS  SETS  VERSION  UPTIME  CONNECTIONS  QUEUES  ITEMS  OPEN  BYTES
127.0.0.1:…  READONLY  read write  …  1  1  0  5 B
`,
		args: args{0, -1, ""},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			set := f.String("set", "", "`STATUS` to give the servers")
			yes := f.BoolP("yes", "y", false, yesUsage)
			return func(s *session, args []string) error {
				sets := s.client.Members()
				sub, err := s.of(args)
				if err != nil {
					return err
				}
				defer sub.client.Close()
				if *set != "" {
					if err := sub.setStatus(*set, *yes); err != nil {
						return err
					}
				}
				return sub.showMembers(sets)
			}
		},
	})
}

func newClusterQuiesce() *cobra.Command {
	return ofServers(command{
		group: "cluster",
		usage: "quiesce [SERVER...] [flags]",
		short: "have servers take nothing and give nothing",
		about: `Gives the servers, or those that are named, the status Quiescent. They leave both sets, and after their grace
period they take no puts and give no items. Nothing they hold is lost, and it stays with them: 'kestrel cluster drain' has it
consumed first. 'kestrel cluster status --set Up' ends it. The command says how many servers that concerns and asks first; without a
terminal it needs --yes.`,
		examples: `$ kestrel cluster quiesce --yes
SERVER  STATUS  SETS  VERSION  UPTIME  CONNECTIONS  QUEUES  ITEMS  OPEN  BYTES
127.0.0.1:…  QUIESCENT  …
$ kestrel get work
kestrel: get from "work" on …the server refused the request with "SERVER_ERROR": its status…
`,
		args: args{0, -1, ""},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			yes := f.BoolP("yes", "y", false, yesUsage)
			return func(s *session, args []string) error {
				sets := s.client.Members()
				sub, err := s.of(args)
				if err != nil {
					return err
				}
				defer sub.client.Close()
				if err := sub.setStatus("Quiescent", *yes); err != nil {
					return err
				}
				return sub.showMembers(sets)
			}
		},
	})
}

// statuses are those that can be asked for.
var statuses = []string{"Up", "WriteAvoid", "ReadOnly", "Quiescent"}

// setStatus gives all servers a status. Servers that do not take it are in the error; the others have it.
func (s *session) setStatus(status string, yes bool) error {
	at := slices.IndexFunc(statuses, func(known string) bool { return strings.EqualFold(known, status) })
	if at < 0 {
		return misused("--set is one of %s, and not %q", strings.Join(statuses, ", "), status)
	}
	status = statuses[at]
	all := s.servers()
	question := fmt.Sprintf("give %s the status %s: %s?", cli.Counted(len(all), "server"), status, cli.ListOf(all))
	if err := s.confirm(question, yes); err != nil {
		return err
	}
	setErr := s.client.SetStatus(s.ctx, status)
	has, err := s.client.Status(s.ctx)
	var other []string
	for _, server := range all {
		switch now, ok := has[server]; {
		case !ok:
			other = append(other, server+" (its status is not known)")
		case !strings.EqualFold(now, status):
			other = append(other, server+" (it has "+now+")")
		}
	}
	if len(other) == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %s did not take the status %s: %s", len(other), cli.Counted(len(all), "server"), status,
		cli.ListOf(other))
	if err := cmpError(setErr, err); err != nil {
		text = s.advised(text+": "+cli.ErrorLine(err), err)
	} else {
		text += "; while the grace period of another change runs, a server takes no stricter one"
	}
	return &cli.Failure{Code: cli.ExitFailed, Text: text}
}

// cmpError returns the first of errs that is one.
func cmpError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// showMembers prints what the servers are, and which of sets they are in.
func (s *session) showMembers(sets client.Members) error {
	status, _ := s.client.Status(s.ctx) // some have none
	stats := s.client.Stats(s.ctx)
	views := []memberView{}
	rows := [][]string{{"SERVER", "STATUS", "SETS", "VERSION", "UPTIME", "CONNECTIONS", "QUEUES", "ITEMS", "OPEN", "BYTES"}}
	for _, server := range stats {
		v := memberView{serverView: viewOfServer(server, status[server.Server]), Sets: setsOf(server.Server, sets)}
		for _, q := range server.Queues {
			v.OpenReads += q.OpenReads
		}
		views = append(views, v)
		inSets := cli.OrNone(strings.Join(v.Sets, " "))
		if server.Err != nil {
			state := "away"
			if isDenied(server.Err) {
				state = "denied"
			}
			rows = append(rows, []string{v.Server, state, inSets, "-", "-", "-", "-", "-", "-", "-"})
			continue
		}
		rows = append(rows, []string{v.Server, cli.OrNone(v.Status), inSets, cli.OrNone(v.Version), cli.Age(server.Uptime),
			figures.Thousands(v.Connections), figures.Thousands(int64(v.Queues)), figures.Thousands(v.Items),
			figures.Thousands(v.OpenReads), figures.Bytes(v.Bytes)})
	}
	if s.json {
		s.print(views)
	} else {
		s.table(rows)
	}
	return s.unanswered(stats)
}

// setsOf returns which sets a server is in.
func setsOf(server string, sets client.Members) []string {
	in := []string{}
	for name, list := range maps.All(map[string][]string{"read": sets.Read, "write": sets.Write}) {
		if slices.Contains(list, server) {
			in = append(in, name)
		}
	}
	slices.Sort(in)
	return in
}
