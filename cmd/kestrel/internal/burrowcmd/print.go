package burrowcmd

import (
	"fmt"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/codec/burrow"
)

// shownAs are the details of the protocol, whose JSON is printed.
var shownAs = [...]burrow.Detail{
	backend.None: burrow.DetailNone, backend.IDs: burrow.DetailID, backend.Times: burrow.DetailAttributes,
	backend.Bodies: burrow.DetailBody, backend.All: burrow.DetailAll,
}

// appendMessage appends a message as JSON.
func (c *call) appendMessage(dst []byte, m backend.Message) []byte {
	return burrow.AppendMessage(dst, burrow.Message{
		ID: []byte(m.ID), TTL: backend.Seconds(m.TTL), Hide: backend.Seconds(m.Hide), Body: m.Body,
	}, shownAs[c.shown])
}

// message prints one message.
func (c *call) message(m backend.Message) {
	switch {
	case c.shown == backend.None:
	case c.json:
		c.out.Write(append(c.appendMessage(nil, m), '\n'))
	case c.shown == backend.IDs:
		fmt.Fprintln(c.out, m.ID)
	case c.shown == backend.Bodies:
		c.out.Write(append(m.Body, '\n'))
	case c.shown == backend.Times:
		fmt.Fprintf(c.out, "%s  ttl %d  hide %d\n", m.ID, backend.Seconds(m.TTL), backend.Seconds(m.Hide))
	default:
		fmt.Fprintf(c.out, "%s  ttl %d  hide %d  %s\n", m.ID, backend.Seconds(m.TTL), backend.Seconds(m.Hide), m.Body)
	}
}

// one prints the one message that a verb returns.
func (c *call) one(m backend.Message, err error) error {
	if err == nil {
		c.message(m)
	}
	return err
}

// list prints the messages that a verb returns: with --output json as one array.
func (c *call) list(all func(yield func(backend.Message, error) bool)) error {
	count := 0
	for m, err := range all {
		if err != nil {
			return err
		}
		if c.shown == backend.None {
			continue
		}
		if !c.json {
			c.message(m)
			continue
		}
		before := byte(',')
		if count++; count == 1 {
			before = '['
		}
		c.out.Write(c.appendMessage([]byte{before}, m))
	}
	if count > 0 {
		c.out.WriteString("]\n")
	}
	return nil
}

// slice is list for messages that were changed.
func (c *call) slice(all []backend.Message, err error) error {
	if err != nil {
		return err
	}
	return c.list(func(yield func(backend.Message, error) bool) {
		for _, m := range all {
			if !yield(m, nil) {
				return
			}
		}
	})
}

// lines prints names.
func (c *call) lines(names []string, err error) error {
	switch {
	case err != nil:
		return err
	case !c.json:
		for _, name := range names {
			fmt.Fprintln(c.out, name)
		}
		return nil
	}
	text := []byte{'['}
	for i, name := range names {
		if i > 0 {
			text = append(text, ',')
		}
		text = burrow.AppendString(text, []byte(name))
	}
	c.out.Write(append(text, ']', '\n'))
	return nil
}
