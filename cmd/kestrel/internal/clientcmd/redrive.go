package clientcmd

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type redriveFlags struct {
	to          string
	limit, rate int64
}

func newRedrive() *cobra.Command {
	return command{
		usage: "redrive QUEUE [flags]",
		short: "move dead letters back to their queue",
		about: `Moves dead letters back to the end of the queue that gave them up, in their order. It moves those that are in the
dead-letter queue when it begins. Those of QUEUE_dead go to QUEUE, and those of QUEUE_dead+CHILD to QUEUE+CHILD. A dead-letter queue of
another name needs --to. The count of deliveries begins anew. An item leaves the dead-letter queue only when the other
queue has stored it, so none is lost. If something fails, items that are on their way may be in both. Items keep
their flags, expiry and key as those of 'kestrel move' do.`,
		examples: `$ kestrel put work_dead one two three
3 items put into "work_dead"
$ kestrel redrive work_dead --limit 1
1 item moved from "work_dead" to "work"
$ kestrel redrive work_dead --rate 100
2 items moved from "work_dead" to "work"
$ kestrel get work --all
one
two
three
`,
		args: args{1, 1, "a dead-letter queue"},
		define: func(f *pflag.FlagSet) func(s *session, args []string) error {
			r := new(redriveFlags)
			f.StringVar(&r.to, "to", "", "`QUEUE` to move to (default: the one whose dead letters these are, by the name)")
			f.Int64VarP(&r.limit, "limit", "n", 0, "`NUMBER` of items at most")
			f.Int64Var(&r.rate, "rate", 0, "`NUMBER` of items a second, about (default: as many as there can be)")
			return r.run
		},
	}.cobra()
}

func (r *redriveFlags) run(s *session, args []string) error {
	from, to := args[0], r.to
	switch {
	case r.limit < 0:
		return misused("--limit is a number above zero, and not %d", r.limit)
	case r.rate < 0:
		return misused("--rate is a number above zero, and not %d", r.rate)
	case to == "":
		if to = sourceOf(from); to == "" {
			return misused("which queue are the dead letters in %q of? Its name does not end with %s: say --to QUEUE", from, deadSuffix)
		}
	case to == from:
		return misused("%q cannot move to itself", from)
	}
	total, err := s.itemsOf(from, r.limit)
	if err != nil {
		return err
	}
	return s.moveAll(s.client, from, to, total, r.rate)
}

// deadSuffix is what the name of a dead-letter queue ends with unless options name another one.
const deadSuffix = "_dead"

// sourceOf is the queue whose dead letters a queue has by its name; "" if it is not such a name.
func sourceOf(dead string) string {
	parent, child, isChild := strings.Cut(dead, "+")
	source, found := strings.CutSuffix(parent, deadSuffix)
	switch {
	case !found:
		return ""
	case isChild:
		return source + "+" + child
	}
	return source
}
