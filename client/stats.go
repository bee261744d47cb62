package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/client/internal/wire"
	"github.com/kestrelmq/kestrel/codec/memcache"
)

// QueueStats are the figures of one queue on one server. Counters begin at 0 with the process.
type QueueStats struct {
	Name  string
	Items int64 // queued, without open reads
	Bytes int64 // of their data
	Age   time.Duration
	// Age is how long ago the item removed last had been put: how far consumers are behind.

	Waiters   int64 // readers that wait now
	OpenReads int64 // items that are open now
	Delayed   int64 // items that are hidden until they are due; Items has them too
	Leased    int64 // items that are leased

	Puts      int64 // items added
	Opened    int64 // items that became open reads
	Returned  int64 // items that came back from open reads
	Expired   int64 // items
	Discarded int64 // items dropped because the queue was full
	Flushes   int64

	DeadLettered int64 // items that went to the dead-letter queue
	Redelivered  int64 // deliveries of items that had been delivered before

	MemoryBytes int64 // of the items that are in memory
	DiskBytes   int64 // that the queue takes in the journal and in its backlog
	Children    []string
	Other       map[string]string // entries that are none of these, by name, as the server words them
}

// ServerStats are the figures of one server.
type ServerStats struct {
	Server string // host:port
	Err    error  // why there are no figures; the rest is then zero

	Version     string
	Uptime      time.Duration
	Items       int64 // in all queues
	Bytes       int64
	Connections int64
	Puts        int64             // items put by clients
	Gets        int64             // fetches
	Other       map[string]string // further figures, by name, as the server words them

	Queues []QueueStats // by name
}

// maxFigures bounds what one answer with figures may take in memory, in bytes. The million queues that a server may
// have by default need less, whatever their names are.
const maxFigures = 2 << 30

// What an answer takes beside the text that is kept of it, in bytes, at most.
const (
	perLine  = 32 // nothing; but an answer that says the same again and again ends
	perText  = 96 // a text, with its place in a map
	perQueue = 512
)

// Stats returns the figures of every server, in the order of their names. A server that cannot be
// asked says why in Err. That is ErrReplyTooLarge if the server sends more than two gigabytes.
//
// It works with every server of the family that has STATS. It asks a server that has DUMP_STATS for that too: only its
// answer shows the names of queues beyond doubt.
func (c *Client) Stats(ctx context.Context) []ServerStats {
	servers := c.Members().all()
	all := make([]ServerStats, len(servers))
	done := make(chan struct{}, len(servers))
	for i, server := range servers {
		go func() {
			all[i] = c.statsOf(ctx, server)
			done <- struct{}{}
		}()
	}
	for range servers {
		<-done
	}
	return all
}

func (c *Client) statsOf(ctx context.Context, server string) ServerStats {
	s := ServerStats{Server: server, Other: make(map[string]string)}
	p := statsParser{server: &s}
	err := c.askFigures(ctx, server, memcache.OpStats, &p.queues, func(r *memcache.Reply) (kept int, more bool, err error) {
		switch r.Kind {
		case memcache.KindStat:
			name, value, _ := strings.Cut(wire.Text(r.Text), " ")
			return p.stat(name, value), true, nil
		case memcache.KindEnd:
			return 0, false, nil
		}
		return 0, false, refusal(r)
	})
	if err != nil {
		return ServerStats{Server: server, Err: wordy("ask for statistics", "", server, err)}
	}
	s.Queues = p.queues
	switch dumped, err := c.dump(ctx, server); {
	case err == nil:
		s.Queues = dumped
	case errors.Is(err, ErrReplyTooLarge):
		return ServerStats{Server: server, Err: wordy("ask for statistics", "", server, err)}
	}
	slices.SortFunc(s.Queues, func(a, b QueueStats) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// dump returns what DUMP_STATS says of the queues.
func (c *Client) dump(ctx context.Context, server string) ([]QueueStats, error) {
	var queues []QueueStats
	err := c.askFigures(ctx, server, memcache.OpDumpStats, &queues, func(r *memcache.Reply) (kept int, more bool, err error) {
		switch {
		case r.Kind == memcache.KindEnd:
			return 0, false, nil
		case r.Kind != memcache.KindText:
			return 0, false, refusal(r)
		case bytes.HasPrefix(r.Text, []byte("queue '")):
			name := bytes.TrimSuffix(bytes.TrimPrefix(r.Text, []byte("queue '")), []byte("' {"))
			queues, kept = append(queues, QueueStats{Name: wire.Text(name)}), perText+len(name)
		case bytes.HasPrefix(r.Text, []byte("  ")) && len(queues) > 0:
			name, value, _ := strings.Cut(strings.TrimSpace(wire.Text(r.Text)), "=")
			kept = queues[len(queues)-1].set(name, value)
		}
		return kept, true, nil
	})
	return queues, err
}

// askFigures is ask for a command whose answer has lines of figures, which read adds to queues. It bounds them. For each,
// read says how many bytes of text it keeps.
func (c *Client) askFigures(
	ctx context.Context, server string, op memcache.Op, queues *[]QueueStats,
	read func(r *memcache.Reply) (kept int, more bool, err error),
) error {
	var size int64 // bytes, without what queues take
	return c.ask(ctx, server, 0, memcache.AppendCommand(nil, op, nil), func(r *memcache.Reply) (bool, error) {
		kept, more, err := read(r)
		size += perLine + int64(kept)
		if err == nil && size+int64(len(*queues))*perQueue > c.most {
			return false, fmt.Errorf("%w (%w: more than %d MiB of figures)", ErrProtocol, ErrReplyTooLarge, c.most>>20)
		}
		return more, err
	})
}

// queueEntries are the entries of a queue, and where they go.
var queueEntries = map[string]func(q *QueueStats) *int64{
	"items":                 func(q *QueueStats) *int64 { return &q.Items },
	"bytes":                 func(q *QueueStats) *int64 { return &q.Bytes },
	"total_items":           func(q *QueueStats) *int64 { return &q.Puts },
	"logsize":               func(q *QueueStats) *int64 { return &q.DiskBytes },
	"expired_items":         func(q *QueueStats) *int64 { return &q.Expired },
	"mem_items":             nil,
	"mem_bytes":             func(q *QueueStats) *int64 { return &q.MemoryBytes },
	"age":                   nil,
	"discarded":             func(q *QueueStats) *int64 { return &q.Discarded },
	"waiters":               func(q *QueueStats) *int64 { return &q.Waiters },
	"open_transactions":     func(q *QueueStats) *int64 { return &q.OpenReads },
	"transactions":          func(q *QueueStats) *int64 { return &q.Opened },
	"canceled_transactions": func(q *QueueStats) *int64 { return &q.Returned },
	"total_flushes":         func(q *QueueStats) *int64 { return &q.Flushes },
	"delayed":               func(q *QueueStats) *int64 { return &q.Delayed },
	"leased":                func(q *QueueStats) *int64 { return &q.Leased },
	"dead_lettered":         func(q *QueueStats) *int64 { return &q.DeadLettered },
	"redelivered":           func(q *QueueStats) *int64 { return &q.Redelivered },
	"journal_rewrites":      nil,
	"journal_rotations":     nil,
	"children":              nil,
}

// set notes one entry of a queue, and returns how many bytes of text it keeps.
func (q *QueueStats) set(name, value string) (kept int) {
	if name == "" {
		return 0
	}
	number, err := strconv.ParseInt(value, 10, 64)
	place := queueEntries[name]
	switch {
	case name == "age" && err == nil:
		q.Age = time.Duration(number) * time.Millisecond
	case name == "children" && value == "":
	case name == "children":
		q.Children = strings.Split(strings.Clone(value), ",")
		return perText + len(value) + 16*len(q.Children)
	case place != nil && err == nil:
		*place(q) = number
	default:
		if q.Other == nil {
			q.Other = make(map[string]string)
		}
		q.Other[strings.Clone(name)] = strings.Clone(value)
		return perText + len(name) + len(value)
	}
	return 0
}

// statsParser reads the lines of STATS. The name of a queue and that of an entry are joined by "_", which both may
// contain. So a line belongs to the queue of the line before it if it can.
type statsParser struct {
	server *ServerStats
	queues []QueueStats
}

// stat notes a line, and returns how many bytes of text it keeps.
func (p *statsParser) stat(name, value string) (kept int) {
	if rest, ok := strings.CutPrefix(name, "queue_"); ok {
		if n := len(p.queues); n > 0 {
			entry, found := strings.CutPrefix(rest, p.queues[n-1].Name+"_")
			if _, known := queueEntries[entry]; found && known {
				return p.queues[n-1].set(entry, value)
			}
		}
		queue, entry := "", ""
		for known := range queueEntries { // the shortest: a queue's first entry is "items"
			q, found := strings.CutSuffix(rest, "_"+known)
			if found && q != "" && (entry == "" || len(known) < len(entry)) {
				queue, entry = q, known
			}
		}
		if entry != "" {
			p.queues = append(p.queues, QueueStats{Name: strings.Clone(queue)})
			return perText + len(queue) + p.queues[len(p.queues)-1].set(entry, value)
		}
	}
	number, _ := strconv.ParseInt(value, 10, 64)
	s := p.server
	switch name {
	case "uptime":
		s.Uptime = time.Duration(number) * time.Second
	case "version":
		s.Version = value
	case "curr_items":
		s.Items = number
	case "bytes":
		s.Bytes = number
	case "curr_connections":
		s.Connections = number
	case "cmd_set":
		s.Puts = number
	case "cmd_get":
		s.Gets = number
	default:
		s.Other[name] = value
	}
	return perText + len(name) + len(value)
}
