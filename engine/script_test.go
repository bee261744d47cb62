package engine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// scriptTest is a rule, and a run of an engine that shows it. Each line is a command, then " -> " and its answer ("ok"
// if left out). Every command is committed, and the invariants are verified after it. Time stands still but for
// "after".
//
//	set QUEUE OPTION[=VALUE]…    reload with other options of a queue; * names the default
//	alias NAME [QUEUE…]          reload with an alias; "unalias NAME" without it
//	put QUEUE DATA [expiry=+5s] [client=C] [flags=N]
//	get|peek QUEUE [client=C]    -> the data
//	open QUEUE READ              -> the data; confirm READ, abort READ end it
//	wait QUEUE get|open|peek W [client=C]  -> the data, or "waiting"; cancel W, drop W, collect W
//	notified                         -> the waiters notified since the last "notified", in order
//	flush, flushexpired, delete QUEUE; flushall; flushallexpired
//	after DURATION               lets time pass
//	overdue, expirequeues        the background work
//	items QUEUE                  -> the data of the queued items, in order
//	stats QUEUE STAT…            -> their values
//	queues                       -> the names of all queues
//	restart, kill                closes, or kills, the process and starts another
//
// DATA x*300 stands for 300 times x.
type scriptTest struct {
	rule   string // of the reference, with its section
	script string
}

func runScripts(t *testing.T, tests []scriptTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			s := newScript(t)
			for i, line := range strings.Split(strings.TrimSpace(tt.script), "\n") {
				command, want, ok := strings.Cut(strings.TrimSpace(line), " ->")
				if want = strings.TrimSpace(want); !ok {
					want = "ok"
				}
				if got := s.do(strings.Fields(command)); got != want {
					t.Fatalf("line %d: %s -> %s, want %s", i+1, command, got, want)
				}
				verify(t, s.e)
			}
		})
	}
}

type script struct {
	t     *testing.T
	fs    *segmenttest.FS
	opts  Options
	e     *Engine
	now   Time
	reads map[string]ReadRef
	waits map[string]*scriptWait
	ended []string
}

type scriptWait struct {
	Waiter
	name  string
	s     *script
	ended bool
}

func (w *scriptWait) WaitEnded(*Waiter) {
	w.ended = true
	w.s.ended = append(w.s.ended, w.name)
}

func newScript(t *testing.T) *script {
	s := &script{t: t, fs: segmenttest.New(), now: Now()}
	s.opts = testOptions(s.fs)
	s.start()
	return s
}

func (s *script) start() {
	s.opts.FS = s.fs
	s.e = openQuiet(s.t, s.opts)
	s.reads, s.waits = map[string]ReadRef{}, map[string]*scriptWait{}
}

// word is how a script calls an outcome.
func word(err error) string {
	for _, e := range []struct {
		err  error
		word string
	}{
		{ErrEmpty, "empty"}, {ErrQueueFull, "full"}, {ErrItemTooLarge, "too large"},
		{ErrBadName, "bad name"},
		{ErrNotAdmitted, "not admitted"}, {ErrOutOfMemory, "out of memory"}, {ErrClosed, "closed"},
		{ErrTooManyQueues, "too many queues"}, {ErrOutOfDisk, "out of disk"},
		{ErrJournal, "journal failed"},
	} {
		if errors.Is(err, e.err) {
			return e.word
		}
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return "ok"
}

// outcome commits a ticket and words the result.
func (s *script) outcome(t Ticket, err error) string {
	if err == nil {
		err = s.e.Commit(t)
	}
	return word(err)
}

func (s *script) do(f []string) string {
	name := []byte(nil)
	if len(f) > 1 {
		name = []byte(f[1])
	}
	switch f[0] {
	case "set", "alias", "unalias":
		return s.reload(f)
	case "put":
		p := PutRequest{Data: []byte(expand(f[2]))}
		for _, arg := range f[3:] {
			key, value, _ := strings.Cut(arg, "=")
			switch key {
			case "expiry":
				p.Expiry = s.now + Time(s.duration(value)/time.Millisecond)
			case "client":
				p.ClientID = value
			case "flags":
				p.Flags = uint32(s.number(value))
			}
		}
		return s.outcome(s.e.Put(s.now, name, p))
	case "get", "peek", "open":
		return s.fetch(name, f)
	case "wait", "cancel", "drop", "collect", "notified":
		return s.wait(f)
	case "confirm":
		ticket, ok := s.e.Confirm(s.now, s.reads[f[1]])
		mustCommit(s.t, s.e, ticket)
		return ended(ok)
	case "abort":
		return ended(s.e.Abort(s.now, s.reads[f[1]]))
	case "flush":
		return s.outcome(s.e.Flush(s.now, name, clientOf(f)))
	case "flushall":
		return s.outcome(s.e.FlushAll(s.now, clientOf(f)))
	case "flushexpired":
		n, ticket := s.e.FlushExpired(s.now, name)
		mustCommit(s.t, s.e, ticket)
		return strconv.FormatInt(n, 10)
	case "flushallexpired":
		n, ticket := s.e.FlushAllExpired(s.now)
		mustCommit(s.t, s.e, ticket)
		return strconv.FormatInt(n, 10)
	case "delete":
		return s.outcome(s.e.Delete(s.now, name), nil)
	}
	return s.observe(f)
}

// observe does the commands that are not a client's.
func (s *script) observe(f []string) string {
	switch f[0] {
	case "after":
		s.now += Time(s.duration(f[1]) / time.Millisecond)
	case "overdue":
		s.e.endOverdueReads(s.now)
	case "expirequeues":
		s.e.expireQueues(s.now)
	case "items":
		var all []string
		for _, data := range queued(s.e, f[1]) {
			all = append(all, shorten(data))
		}
		return strings.Join(all, " ")
	case "stats":
		return s.stats(f[1], f[2:])
	case "queues":
		var all []string
		for _, q := range s.e.Queues(s.now) {
			all = append(all, q.Name)
		}
		return strings.Join(all, " ")
	case "restart":
		if err := s.e.Close(); err != nil {
			s.t.Fatalf("Close = %v", err)
		}
		s.start()
	case "kill":
		s.fs = s.fs.Kill()
		s.start()
	default:
		s.t.Fatalf("unknown command %q", f)
	}
	return "ok"
}

func (s *script) fetch(name []byte, f []string) string {
	var got copied
	request := FetchRequest{ClientID: clientOf(f)}
	switch f[0] {
	case "peek":
		request.Access = Peek
	case "open":
		request.Access = OpenRead
	}
	fetched, err := s.e.Fetch(s.now, name, request, &got)
	for ; err == ErrComing; fetched, err = s.e.Fetch(s.now, name, request, &got) {
		spoolAll(s.e)
	}
	if result := s.outcome(fetched.Ticket, err); result != "ok" {
		return result
	}
	if f[0] == "open" {
		s.reads[f[2]] = fetched.Read
	}
	return show(got.item)
}

func (s *script) wait(f []string) string {
	switch f[0] {
	case "notified":
		defer func() { s.ended = nil }()
		return strings.TrimSpace("notified " + strings.Join(s.ended, " "))
	case "wait":
		w := &scriptWait{name: f[3], s: s}
		w.Notify = w
		access := map[string]Access{"get": Take, "open": OpenRead, "peek": Peek}[f[2]]
		var got copied
		request := FetchRequest{Access: access, Waiter: &w.Waiter, ClientID: clientOf(f)}
		fetched, err := s.e.Fetch(s.now, []byte(f[1]), request, &got)
		if fetched.Waiting {
			s.waits[w.name] = w
			return "waiting"
		}
		if result := s.outcome(fetched.Ticket, err); result != "ok" {
			return result
		}
		s.reads[w.name] = fetched.Read
		return show(got.item)
	}
	w := s.waits[f[1]]
	switch f[0] {
	case "cancel":
		return ended(s.e.CancelWait(&w.Waiter))
	case "drop":
		return ended(s.e.Abort(s.now, w.Read))
	}
	switch { // collect
	case !w.ended:
		return "waiting"
	case errors.Is(w.Err, ErrNotAdmitted):
		return "not admitted"
	case w.Read.IsZero():
		return "nothing"
	}
	var got copied
	ticket, ok := s.e.Collect(s.now, w.Read, FetchRequest{Access: w.Access}, &got)
	mustCommit(s.t, s.e, ticket)
	if !ok {
		return "ended"
	}
	if w.Access == OpenRead {
		s.reads[w.name] = w.Read
	}
	return show(got.item)
}

// stats prints the stats named; "age" is in ms.
func (s *script) stats(name string, stats []string) string {
	q, ok := s.e.QueueStats(s.now, []byte(name))
	if !ok {
		return "none"
	}
	values := map[string]any{
		"items": q.Items, "bytes": q.Bytes, "open": q.OpenReads, "waiters": q.Waiters, "age": q.Age,
		"puts": q.Puts, "putbytes": q.PutBytes, "replayed": q.Replayed,
		"hits": q.Hits, "misses": q.Misses,
		"expired": q.Expired, "discarded": q.Discarded, "flushes": q.Flushes, "opens": q.Opens,
		"returns": q.Returns, "into": q.ExpiredInto, "lost": q.ExpiredLost, "mem": q.MemItems,
		"children": strings.Join(q.Children, ","),
	}
	var all []string
	for _, stat := range stats {
		if values[stat] == nil {
			s.t.Fatalf("no stat %q", stat)
		}
		all = append(all, fmt.Sprint(values[stat]))
	}
	return strings.Join(all, " ")
}

func clientOf(f []string) string {
	i := slices.IndexFunc(f, func(arg string) bool { return strings.HasPrefix(arg, "client=") })
	if i < 0 {
		return ""
	}
	return strings.TrimPrefix(f[i], "client=")
}

func ended(ok bool) string {
	if ok {
		return "ok"
	}
	return "ended"
}

// expand is the data that a script means by x*300; shorten is the reverse.
func expand(text string) string {
	if x, count, ok := strings.Cut(text, "*"); ok {
		n, _ := strconv.Atoi(count)
		return strings.Repeat(x, n)
	}
	return text
}

func shorten(data string) string {
	if data == "" {
		return "''"
	}
	if len(data) > 4 && data == strings.Repeat(data[:1], len(data)) {
		return fmt.Sprintf("%s*%d", data[:1], len(data))
	}
	return data
}

func show(it Item) string {
	if it.Flags != 0 {
		return fmt.Sprintf("%s flags=%d", shorten(string(it.Data)), it.Flags)
	}
	return shorten(string(it.Data))
}
