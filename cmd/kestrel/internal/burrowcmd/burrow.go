package burrowcmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

const exitPage = `
Exit status: 0 if all was done; 1 if the messages could not be reached, or this
failed; 2 if the command line is wrong; 5 if nothing matches; 6 if a message was
refused; 7 if it is not known whether something was done.
`

const groupPage = `Usage:
    kestrel burrow VERB [QUEUE [ID]] [flags]

Puts, reads, changes and deletes messages: over Burrow's protocol, in a
directory of kestrel's, or in a file of SQLite's. The verbs are those of
Burrow's own command line; 'kestrel burrow VERB --help' has the flags of each.
The account is 'default', whose queues are those of the other protocols, unless
-a names another one.

`

// NewBurrow returns `kestrel burrow`.
func NewBurrow() *cobra.Command {
	page := groupPage
	group := cli.Group("burrow", "put, read, change and delete messages by their ids", "")
	for _, v := range verbs {
		cmd := v.cobra()
		group.AddCommand(cmd)
		page += "    " + v.name + "\n        " + v.short + "\n"
	}
	group.Long = page + exitPage
	return group
}

// verbs are the operations of Burrow's interface.
var verbs = []verb{
	{name: "create_message", args: "QUEUE ID", count: 2, short: "put a message, or overwrite the one with that id", has: hasAttributes | hasBody,
		example: `$ kestrel burrow create_message resize job-1 -a acme --body cat.png --ttl 0
$ echo -n dog.png | kestrel burrow create_message resize job-2 -a acme --hide 3600
$ kestrel burrow get_messages resize -a acme
job-1  ttl 0  hide 0  cat.png
`,
		do: func(c *call) error {
			body := []byte(c.body)
			if !c.hasBody {
				var err error
				if body, err = cli.ReadItem(cli.Heed(c.ctx, c.in)); err != nil {
					code := cli.ExitFailed
					if errors.Is(err, cli.ErrItemTooLarge) {
						code = cli.ExitRefused
					}
					return &cli.Failure{Code: code, Text: fmt.Sprintf("read the message from standard input: %v", err)}
				}
			}
			_, err := c.back.Put(c.ctx, c.key(), body, c.attributes())
			return err
		}},
	{name: "get_message", args: "QUEUE ID", count: 2, short: "print one message, hidden or not", has: hasDetail, detail: "all",
		example: `$ kestrel burrow create_message resize job-1 --body cat.png --ttl 0 --hide 60
$ kestrel burrow get_message resize job-1
job-1  ttl 0  hide …  cat.png
$ kestrel burrow get_message resize job-1 --detail body
cat.png
$ kestrel burrow get_message resize job-1 --output json
{"body":"cat.png","hide":…,"id":"job-1","ttl":0}
`,
		do: func(c *call) error { return c.one(c.back.Message(c.ctx, c.key(), c.shown)) }},
	{name: "update_message", args: "QUEUE ID", count: 2, short: "change ttl and hide of one message", has: hasDetail | hasAttributes, detail: "none",
		example: `$ kestrel burrow create_message resize job-1 --body cat.png --ttl 0
$ kestrel burrow update_message resize job-1 --hide 300 --detail attributes
job-1  ttl 0  hide 300
`,
		do: func(c *call) error {
			return c.one(c.back.UpdateMessage(c.ctx, c.key(), c.attributes(), c.shown))
		}},
	{name: "delete_message", args: "QUEUE ID", count: 2, short: "delete one message, hidden or not", has: hasDetail, detail: "none",
		example: `$ kestrel burrow create_message resize job-1 --body cat.png
$ kestrel burrow delete_message resize job-1 --detail body
cat.png
$ kestrel burrow delete_message resize job-1 || echo "exit status $?"
kestrel: Account not found
exit status 5
`,
		do: func(c *call) error { return c.one(c.back.DeleteMessage(c.ctx, c.key(), c.shown)) }},
	{name: "get_messages", args: "QUEUE", count: 1, short: "print the messages of a queue, and leave them there", has: hasMatch | hasDetail, detail: "all",
		example: `$ for i in 1 2 3; do kestrel burrow create_message events e$i --body "event $i" --ttl 0; done
$ kestrel burrow get_messages events --marker e1 --limit 1
e2  ttl 0  hide 0  event 2
$ kestrel burrow get_messages events --detail id --output json
["e1","e2","e3"]
`,
		do: func(c *call) error { return c.list(c.back.Messages(c.ctx, c.queue(), c.match())) }},
	{name: "update_messages", args: "QUEUE", count: 1, short: "change ttl and hide of messages that match; hiding takes one",
		has: hasMatch | hasDetail | hasAttributes, detail: "none",
		example: `$ kestrel burrow create_message resize job-1 --body cat.png --ttl 0
$ kestrel burrow update_messages resize --limit 1 --wait 60 --hide 30 --detail all
job-1  ttl 0  hide 30  cat.png
$ kestrel burrow delete_message resize job-1
`,
		do: func(c *call) error {
			return c.slice(c.back.UpdateMessages(c.ctx, c.queue(), c.attributes(), c.match()))
		}},
	{name: "delete_messages", args: "QUEUE", count: 1, short: "delete the messages that match; hidden ones only with --all",
		has: hasMatch | hasDetail, detail: "none",
		example: `$ kestrel burrow create_message resize job-1 --body cat.png
$ kestrel burrow create_message resize job-2 --body dog.png --hide 60
$ kestrel burrow delete_messages resize --detail id
job-1
$ kestrel burrow delete_messages resize --detail id --all
job-2
`,
		do: func(c *call) error { return c.slice(c.back.DeleteMessages(c.ctx, c.queue(), c.match())) }},
	{name: "get_queues", short: "print the queues of an account that have messages", has: hasNames,
		example: `$ kestrel burrow create_message resize job-1 -a acme --body cat.png
$ kestrel burrow get_queues -a acme
resize
`,
		do: func(c *call) error { return c.lines(c.back.Queues(c.ctx, "", c.names())) }},
	{name: "delete_queues", short: "delete all messages of the queues of an account, and print the queues", has: hasNames,
		example: `$ kestrel burrow create_message resize job-1 -a acme --hide 60 --body cat.png
$ kestrel burrow delete_queues -a acme
resize
`,
		do: func(c *call) error { return c.lines(c.back.DeleteQueues(c.ctx, "", c.names())) }},
	{name: "get_accounts", short: "print the accounts that have messages", has: hasNames,
		example: `$ kestrel burrow create_message resize job-1 -a acme --body cat.png
$ kestrel burrow get_accounts
acme
`,
		do: func(c *call) error { return c.lines(c.back.Accounts(c.ctx, c.names())) }},
	{name: "delete_accounts", short: "delete all messages of the accounts that match, and print the accounts", has: hasNames,
		example: `$ kestrel burrow create_message resize job-1 -a acme --body cat.png
$ kestrel burrow delete_accounts --output json
["acme"]
`,
		do: func(c *call) error { return c.lines(c.back.DeleteAccounts(c.ctx, c.names())) }},
}
