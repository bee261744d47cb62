package engine

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestMessagesFaults has every call of each kind fail once, for lack of room or descriptors, or on a bad disk. The run
// has delays, leases, counts, dead letters and keys. What is refused changes nothing. A power cut, before the disk
// works again and after, leaves a state that the queues were in, not before what was acknowledged. Then all goes on:
// everything that is there is handed out.
//
// To look at one: go test ./engine -run 'TestMessagesFaults/write_12_EIO'
func TestMessagesFaults(t *testing.T) {
	errnos := []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EMFILE}
	stride := amount(sampled(9, 3), 1, 1)
	clean := newMessages(t, passingFault{})
	clean.run()
	all, total := maps.Clone(clean.calls), 0
	for _, name := range []string{"q", "d"} {
		s, _ := clean.QueueStats(clean.now, []byte(name))
		if s.DeadLettered != 2 || s.Redelivered != 2 || s.Delayed == 0 || (name == "d") != (clean.hidden[name] > 0) {
			t.Errorf("queue %s: %d dead letters, %d delivered again, %d delayed, %d hidden, which is not all there is to try",
				name, s.DeadLettered, s.Redelivered, s.Delayed, clean.hidden[name])
		}
	}
	clean.finish()
	for kind := segmenttest.OpCreate; kind <= segmenttest.OpDatasync; kind++ {
		for n := 1; n <= all[kind]; n += stride {
			for i, errno := range errnos {
				if stride > 1 && n/stride%len(errnos) != i {
					continue
				}
				f := passingFault{kind, n, errno}
				total++
				if !t.Run(strings.ReplaceAll(f.String(), " ", "_"), func(t *testing.T) {
					m := newMessages(t, f)
					m.run()
					m.finish()
				}) {
					return
				}
			}
		}
	}
	if t.Logf("%d faults", total); total < 120/stride && total < 40 {
		t.Errorf("%d faults are too few", total)
	}
}

// messages is a run of an engine without background work, with a clock of its own. Queue "q" has its items in memory.
// Queue "d" has hardly any memory, so delayed items are hidden, and items in line are spilled.
type messages struct {
	*testing.T
	*Engine
	fsys *segmenttest.FS
	now  Time
	h    *history
	// fault is the call that fails, unless paused is set, when the test itself reads files.
	fault  passingFault
	paused bool
	calls  map[segmenttest.OpKind]int
	failed string           // what has failed
	have   map[string]bool  // the bodies that are somewhere
	hidden map[string]int64 // how many items of each queue were seen on disk in hidden runs
}

func newMessages(t *testing.T, f passingFault) *messages {
	m := &messages{
		T: t, fsys: segmenttest.New(), now: 1700000000000, h: newHistory(), fault: f,
		calls: make(map[segmenttest.OpKind]int), have: make(map[string]bool), hidden: make(map[string]int64),
	}
	e, err := open(m.options(m.fsys))
	if err != nil {
		t.Fatal(err)
	}
	m.Engine = e
	m.precise = func() (Time, time.Duration) { return m.now, 0 }
	m.spool.now = m.precise.Now
	m.fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if m.paused {
			return segmenttest.Fault{}
		}
		if m.calls[op.Kind]++; op.Kind != m.fault.kind || m.calls[op.Kind] != m.fault.first {
			return segmenttest.Fault{}
		}
		m.failed = fmt.Sprint(op.Kind, " ", op.Path)
		return m.fault.fault()
	})
	return m
}

func (m *messages) options(fsys segment.FS) Options {
	o := testOptions(fsys, func(o *QueueOptions) {
		o.MaxDeliveries, o.Sync = 2, SyncAlways
	})
	o.SegmentSize, o.JournalSize, o.readBack = 1024, 4096, time.Second
	o.markFrom, o.markLong = 2*marks.RangeCost, 8
	small := o.Settings.Default
	small.MaxMemorySize = 100
	o.Settings.Queues = map[string]QueueOptions{"d": small}
	return o
}

// words are the queues as the journal should say them: every item by its id, with how it stands.
func (m *messages) words(e *Engine) string {
	m.paused = true
	defer func() { m.paused = false }()
	var all []string
	for _, s := range e.Queues(0) {
		q := e.shardOf([]byte(s.Name)).queues[s.Name]
		items := make(map[uint64]string)
		stands := func(it Item, entry aside.Entry) {
			how := [...]string{aside.Delayed: "delayed@", aside.Leased: "leased@", aside.Ready: "ready"}[entry.State]
			if entry.Due != 0 {
				how += fmt.Sprint(entry.Due)
			}
			items[it.ID] = fmt.Sprintf("  %d %q %s %s %d %d", it.ID, it.Key(), it.Data, how, entry.Token, entry.Count)
		}
		for _, it := range contents(e, s.Name, true) {
			stands(it, aside.Entry{State: aside.Ready})
		}
		for r := q.returned.First(); r != nil; r = r.link.Next() {
			stands(r.item, aside.Entry{State: aside.Ready, Count: r.count})
		}
		for _, id := range q.idsAside(func(s aside.State) bool { return s != aside.Restored }) {
			r, _ := q.aside.Find(id)
			stands(q.aside.Item(r), q.aside.Get(r))
		}
		for _, it := range hiddenEntries(e, q) {
			m.hidden[s.Name]++
			stands(it.Item, aside.Entry{State: aside.Delayed, Due: it.Due, Count: it.Count})
		}
		all = append(all, fmt.Sprint(s.Name, " next ", q.nextID))
		for _, id := range slices.Sorted(maps.Keys(items)) {
			all = append(all, items[id])
		}
	}
	return strings.Join(all, "\n")
}

var delayWord = regexp.MustCompile(`delayed@(\d+)`)

// settled has what was delayed until now be ready: the journal does not say when a delay ends.
func (m *messages) settled(words string) string {
	return delayWord.ReplaceAllStringFunc(words, func(word string) string {
		if due, _ := strconv.ParseInt(word[len("delayed@"):], 10, 64); Time(due) < m.now {
			return "ready"
		}
		return word
	})
}

// do does something, and notes the state behind it. It reports whether that was done, acknowledged or not.
func (m *messages) do(what string, f func() (Ticket, error)) bool {
	m.Helper()
	before := m.words(m.Engine)
	ticket, err := f()
	after := m.words(m.Engine)
	m.h.did(m.journal.End(), durableWords{queues: after})
	refused := err != nil
	if refused && m.settled(before) != m.settled(after) {
		m.Fatalf("%s failed, %s = %v: it was refused, and changed\n%s\nto\n%s", m.failed, what, err, before, after)
	}
	if !refused {
		if err = m.Commit(ticket); err == nil {
			m.h.acknowledged(ticket)
		}
	}
	if err != nil && m.failed == "" {
		m.Fatalf("%s = %v, and no call has failed", what, err)
	}
	return !refused
}

// work does what runs in the background, which changes no queue.
func (m *messages) work() {
	m.Helper()
	before := m.words(m.Engine)
	e := m.Engine
	e.nextMove = time.Time{}
	if e.journal.Failing() || e.journal.Full() {
		e.retryJournal()
	}
	e.boundJournal()
	for range 2 {
		e.spool.tend()
		spoolSome(e, 200)
	}
	e.journal.SyncSealed()
	e.trimJournal()
	e.journal.Prepare()
	e.journal.Mark()
	e.writeLeftOver()
	if after := m.words(m.Engine); m.settled(before) != m.settled(after) {
		m.Fatalf("%s failed: background work changed\n%s\nto\n%s", m.failed, before, after)
	}
}

// pass lets time pass, and what is due happen.
func (m *messages) pass(d time.Duration) {
	m.Helper()
	m.now = m.now.After(d)
	m.do("pass", func() (Ticket, error) {
		m.wakeQueues()
		return Ticket{Written: m.journal.End(), Synced: m.journal.End()}, nil
	})
	m.work()
}

// put puts, and reports whether the item was taken in. Its body says in which queue it is.
func (m *messages) put(name, body string, x *PutExtra) bool {
	m.Helper()
	body = messageBody(name, body)
	taken := m.do("put "+body, func() (Ticket, error) {
		return m.Put(m.now, []byte(name), PutRequest{Data: []byte(body), Extra: x})
	})
	if taken {
		m.have[body] = true
	}
	return taken
}

func messageBody(name, body string) string { return name + ":" + body + ":" + strings.Repeat("x", 40) }

// overwrite is put in the place of the item that has the key, if there is one.
func (m *messages) overwrite(name, old, body string, x *PutExtra) {
	m.Helper()
	if m.put(name, body, x) {
		delete(m.have, messageBody(name, old))
	}
}

// lease leases the next item; a zero receipt if there is none to be had.
func (m *messages) lease(name string, d time.Duration) (body string, receipt uint64) {
	m.Helper()
	request := FetchRequest{Access: Lease, Lease: d, Delivery: new(Delivery)}
	m.do("lease of "+name, func() (Ticket, error) {
		t, err := m.fetch(name, request, &body)
		receipt = request.Delivery.Receipt
		return t, err
	})
	return body, receipt
}

// fetch fetches, with what the spool has to do for that.
func (m *messages) fetch(name string, request FetchRequest, body *string) (Ticket, error) {
	for tries := 0; ; tries++ {
		var got copied
		f, err := m.Fetch(m.now, []byte(name), request, &got)
		if err != ErrComing || tries == 20 {
			if err == ErrEmpty || err == ErrComing && m.failed != "" {
				return Ticket{}, nil
			}
			*body = string(got.item.Data)
			return f.Ticket, err
		}
		m.spool.tend()
		spoolSome(m.Engine, 200)
	}
}

func (m *messages) take(name string) (body string) {
	m.Helper()
	m.do("take of "+name, func() (Ticket, error) { return m.fetch(name, FetchRequest{}, &body) })
	delete(m.have, body)
	return body
}

// end ends a lease by f, if there is one.
func (m *messages) end(what string, receipt uint64, f func() (Ticket, error)) bool {
	m.Helper()
	return receipt != 0 && m.do(what, f)
}

func (m *messages) giveBack(name string, receipt uint64, how Return) {
	m.Helper()
	m.end(fmt.Sprintf("return %+v", how), receipt, func() (Ticket, error) {
		return m.ReturnLease(m.now, []byte(name), receipt, how)
	})
}

func (m *messages) run() {
	m.Helper()
	for _, name := range []string{"q", "d"} {
		q := []byte(name)
		key := func(key string, delay time.Duration) *PutExtra { return &PutExtra{Key: []byte(key), Delay: delay} }
		for i := range 6 {
			m.put(name, fmt.Sprint("plain", i), nil)
		}
		m.put(name, "soon", key("a", 5*time.Second))
		m.put(name, "sooner", key("b", 4*time.Second))
		m.put(name, "later", key("c", 1000*time.Second))
		m.put(name, "latest", key("d", 2000*time.Second))
		m.work()
		first, held := m.lease(name, time.Hour)
		_, back := m.lease(name, time.Hour)
		m.end("extend", held, func() (Ticket, error) {
			_, t, err := m.ExtendLease(m.now, q, held, 2*time.Hour)
			return t, err
		})
		m.giveBack(name, back, Return{How: Release})
		for range 2 { // the second time it is buried
			_, back = m.lease(name, time.Hour)
			m.giveBack(name, back, Return{How: Abort})
		}
		m.overwrite(name, "later", "later2", key("c", 900*time.Second))
		m.overwrite(name, "soon", "visible", key("a", 0))
		m.work()
		if m.end("confirm", held, func() (Ticket, error) { return m.ConfirmLease(m.now, q, held) }) {
			delete(m.have, first)
		}
		m.remove(name, Which{Key: []byte("d")})
		m.remove(name, Which{ID: 5})
		_, back = m.lease(name, time.Hour)
		m.giveBack(name, back, Return{How: Reject})
		_, back = m.lease(name, time.Hour)
		m.giveBack(name, back, Return{How: Abort, Delay: 20 * time.Second, Delayed: true})
		m.work()
		m.pass(4500 * time.Millisecond)
		m.take(name)
		m.lease(name, time.Second)
		m.pass(3 * time.Second) // it lapses
		m.take(name)
		m.pass(20 * time.Second)
	}
	m.put("q", "at the end", nil)
}

// remove removes the item that which finds, if it is there and nobody has it.
func (m *messages) remove(name string, which Which) {
	m.Helper()
	var got copied
	about := Delivery{}
	m.paused = true
	_, err := m.Look(m.now, []byte(name), &LookRequest{Which: which, Wait: true, Delivery: &about}, &got)
	m.paused = false
	if err != nil {
		if m.failed == "" {
			m.Fatalf("look at %+v = %v", which, err)
		}
		return
	}
	if m.do(fmt.Sprintf("remove %+v", which), func() (Ticket, error) { return m.Remove(m.now, []byte(name), "", which) }) {
		delete(m.have, string(got.item.Data))
	}
}

// finish cuts the power, while the disk may still fail and when it works, and takes everything out.
func (m *messages) finish() {
	m.Helper()
	if m.fault.first > 0 && m.failed == "" {
		m.Fatalf("%v has not come", m.fault)
	}
	lose, tear := segmenttest.CutOptions{Mode: segmenttest.Lose}, segmenttest.CutOptions{Mode: segmenttest.Tear, Seed: 7}
	for _, cut := range []segmenttest.CutOptions{lose, tear} {
		m.cut(cut, m.h.oldest(m.h.synced))
	}
	m.work()
	m.work()
	if err := m.Commit(Ticket{Written: m.journal.End(), Synced: m.journal.End()}); err != nil {
		m.Fatalf("%s failed: a commit after that = %v", m.failed, err)
	}
	m.h.did(m.journal.End(), durableWords{queues: m.words(m.Engine)})
	m.cut(lose, len(m.h.states)-1)
	verify(m, m.Engine)
	for range 3 {
		m.pass(10_000 * time.Second)
	}
	have := maps.Clone(m.have)
	for _, name := range []string{"q", "d", "q_dead", "d_dead"} {
		for body := m.take(name); body != ""; body = m.take(name) {
			if !have[body] {
				m.Errorf("%s failed: %s has %q, which was removed, or came before", m.failed, name, body)
			}
			delete(have, body)
		}
	}
	if len(m.have) > 0 {
		m.Errorf("%s failed: these are lost: %q", m.failed, slices.Sorted(maps.Keys(m.have)))
	}
	if err := m.Close(); err != nil {
		m.Errorf("%s failed: Close = %v", m.failed, err)
	}
}

// cut cuts the power, and fails the test unless a start finds one of the states from oldest on.
func (m *messages) cut(how segmenttest.CutOptions, oldest int) {
	m.Helper()
	e, err := open(m.options(m.fsys.PowerCut(how)))
	if err != nil {
		m.Fatalf("%s failed: open what a power cut left: %v", m.failed, err)
	}
	e.precise = m.precise
	e.spool.now = m.precise.Now
	if w := e.Withheld(); len(w) > 0 {
		m.Errorf("%s failed: withheld are %+v", m.failed, w)
	}
	verify(m, e)
	found := m.settled(m.words(e))
	if !slices.ContainsFunc(m.h.states[oldest:], func(s durableState) bool { return m.settled(s.queues) == found }) {
		m.Errorf("%s failed: a power cut left\n%s\nwhich is no state from number %d on, but\n%s\nto\n%s are", m.failed,
			found, oldest, m.settled(m.h.states[oldest].queues), m.settled(m.h.states[len(m.h.states)-1].queues))
	}
	if err := e.Close(); err != nil {
		m.Error(err)
	}
}
