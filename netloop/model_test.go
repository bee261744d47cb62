package netloop

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/kestrelmq/kestrel/codec/thrift"
)

// TestProtocolModel drives one engine with clients of all four protocols at once. Clients go away, time passes and
// servers are killed, and every answer is compared with a model of plain slices. A failure prints the steps and the
// seed; -rapid.seed=N replays it.
//
// Negative control: have LeaseReads of the engine count for nobody, and a get returns more than the
// connection may have open.
func TestProtocolModel(t *testing.T) {
	rounds := 5 // of 100 runs
	if isSample() {
		rounds = 1
	}
	if os.Getenv("KESTREL_LONG") != "" {
		rounds = 200
	}
	for range rounds {
		synctest.Test(t, func(t *testing.T) {
			// A bubble has no deadline that rapid could look up.
			rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
				m := newProtocolModel(t, rt)
				defer m.end()
				rt.Repeat(m.actions())
			})
		})
	}
}

func (m *protocolModel) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":              m.check,
		"memcachePut":   m.memcachePut,
		"memcacheGet":   m.memcacheGet,
		"memcacheOpen":  m.memcacheOpen,
		"memcacheClose": m.memcacheClose,
		"memcacheAbort": m.memcacheAbort,
		"textPut":       m.textPut,
		"textGet":       m.textGet,
		"textConfirm":   m.textConfirm,
		"thriftPut":     m.thriftPut,
		"thriftGet":     m.thriftGet,
		"thriftOpen":    m.thriftOpen,
		"thriftEnd":     m.thriftEnd,
		"thriftTouch":   m.thriftTouch,
		"burrowPut":     m.burrowPut,
		"burrowTake":    m.burrowTake,
		"burrowList":    m.burrowList,
		"burrowHide":    m.burrowHide,
		"burrowEnd":     m.burrowEnd,
		"hangUp":        m.hangUp,
		"pass":          m.pass,
		"flush":         m.flush,
		"delete":        m.delete,
		"kill":          m.kill,
		"stop":          m.stop,
	}
}

// modelReads is the limit of open reads.
const modelReads = 3

// modelItem is an item; items are put in the order of seq.
type modelItem struct {
	seq  int
	data string
	dead bool // it is open, and its queue was deleted
}

func (it modelItem) isDead() bool { return it.dead }

// modelRead is an open read of the Thrift protocol.
type modelRead struct {
	queue    string
	item     modelItem
	deadline time.Time
	order    int
	reader   *thriftClient
}

type protocolModel struct {
	t  *testing.T
	rt *rapid.T
	ts *testServer

	memcache, text, burrow *testClient
	thrift                 *thriftClient

	seq    int
	order  int
	ready  map[string][]modelItem
	back   map[string]int                         // how many of them have been brought back to the head; the others are in their order
	open   map[*testClient]map[string][]modelItem // of memcache and text
	reads  map[int64]modelRead
	hidden map[string]modelHidden // by the id of the message
}

var modelQueues = []string{"a", "b"}

func newProtocolModel(t *testing.T, rt *rapid.T) *protocolModel {
	m := &protocolModel{t: t, rt: rt, ts: newTestServer(t, Options{MaxOpenReads: modelReads}, defaults())}
	m.ready, m.back = make(map[string][]modelItem), make(map[string]int)
	m.reads, m.hidden = make(map[int64]modelRead), make(map[string]modelHidden)
	m.dial()
	return m
}

func (m *protocolModel) dial() {
	m.open = make(map[*testClient]map[string][]modelItem)
	m.memcache, m.text = m.ts.dial(memcacheProtocol{}), m.ts.dial(textProtocol{})
	m.open[m.memcache], m.open[m.text] = map[string][]modelItem{}, map[string][]modelItem{}
	m.thrift = m.ts.dialThrift()
	m.burrow = m.ts.dial(burrowProtocol{})
}

func (m *protocolModel) end() {
	for _, c := range []*testClient{m.memcache, m.text, m.thrift.testClient, m.burrow} {
		c.hangUp()
	}
	m.ts.stop()
}

// ask sends a request and compares the answer.
func (m *protocolModel) ask(c *testClient, request, want string) {
	c.feed([]byte(request), 1<<20)
	out, ended := c.received()
	if string(out) != want || ended {
		m.rt.Fatalf("%q: got %q, closed %t, want %q", request, out, ended, want)
	}
	c.consume(len(out))
}

func (m *protocolModel) queue(rt *rapid.T) string {
	return rapid.SampledFrom(modelQueues).Draw(rt, "queue")
}

func (m *protocolModel) newItem() modelItem {
	m.seq++
	return modelItem{seq: m.seq, data: fmt.Sprintf("item%d", m.seq)}
}

// take removes up to n items from the head.
func (m *protocolModel) take(queue string, n int) []modelItem {
	n = min(n, len(m.ready[queue]))
	taken := slices.Clone(m.ready[queue][:n])
	m.ready[queue] = m.ready[queue][n:]
	m.back[queue] = max(m.back[queue]-n, 0)
	return taken
}

// giveBack puts items back at the head, in their order.
func (m *protocolModel) giveBack(queue string, items []modelItem) {
	live := slices.DeleteFunc(slices.Clone(items), modelItem.isDead)
	m.ready[queue] = append(live, m.ready[queue]...)
	m.back[queue] += len(live)
}

func bySeq(a, b modelItem) int { return cmp.Compare(a.seq, b.seq) }

// check compares what every protocol shows of the queues.
func (m *protocolModel) check(*rapid.T) {
	for _, queue := range modelQueues {
		memcache, head := "END\r\n", ""
		if items := m.ready[queue]; len(items) > 0 {
			head = items[0].data
			memcache = fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\nEND\r\n", queue, len(head), head)
		}
		m.ask(m.memcache, "get "+queue+"/peek\r\n", memcache)
		r := m.thrift.call(m.thrift.codec.AppendCall(nil, thrift.MethodPeek, m.thrift.next(), []byte(queue)))
		open, there := 0, len(m.ready[queue])+m.hiddenOf(queue)
		for _, reads := range m.open {
			open += len(slices.DeleteFunc(slices.Clone(reads[queue]), modelItem.isDead))
		}
		for _, read := range m.reads {
			if read.queue == queue {
				open++
			}
		}
		info := r.Info
		if string(info.HeadItem) != head || int(info.Items) != there || int(info.OpenReads) != open {
			m.rt.Fatalf("peek %s: head %q, %d items, %d open; want %q, %d, %d", queue,
				info.HeadItem, info.Items, info.OpenReads, head, there, open)
		}
	}
}

func (m *protocolModel) memcachePut(rt *rapid.T) {
	queue, it := m.queue(rt), m.newItem()
	m.ask(m.memcache, fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", queue, len(it.data), it.data), "STORED\r\n")
	m.ready[queue] = append(m.ready[queue], it)
}

func (m *protocolModel) memcacheItem(queue string, taken []modelItem) string {
	if len(taken) == 0 {
		return "END\r\n"
	}
	return fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\nEND\r\n", queue, len(taken[0].data), taken[0].data)
}

func (m *protocolModel) memcacheGet(rt *rapid.T) {
	queue := m.queue(rt)
	if len(m.open[m.memcache][queue]) > 0 {
		rt.Skip("an open read comes first")
	}
	m.ask(m.memcache, "get "+queue+"\r\n", m.memcacheItem(queue, m.take(queue, 1)))
}

func (m *protocolModel) memcacheOpen(rt *rapid.T) {
	queue, open := m.queue(rt), m.open[m.memcache]
	if len(open[queue]) == modelReads {
		rt.Skip("no more reads can be opened")
	}
	taken := m.take(queue, 1)
	m.ask(m.memcache, "get "+queue+"/open\r\n", m.memcacheItem(queue, taken))
	open[queue] = append(open[queue], taken...)
}

func (m *protocolModel) memcacheClose(rt *rapid.T) {
	queue, open := m.queue(rt), m.open[m.memcache]
	m.ask(m.memcache, "get "+queue+"/close\r\n", "END\r\n")
	open[queue] = open[queue][min(1, len(open[queue])):]
}

func (m *protocolModel) memcacheAbort(rt *rapid.T) {
	queue, open := m.queue(rt), m.open[m.memcache]
	m.ask(m.memcache, "get "+queue+"/abort\r\n", "END\r\n")
	n := min(1, len(open[queue]))
	m.giveBack(queue, open[queue][:n])
	open[queue] = open[queue][n:]
}

func (m *protocolModel) textPut(rt *rapid.T) {
	queue, n := m.queue(rt), rapid.IntRange(0, 3).Draw(rt, "items")
	request := "put " + queue + ":\n"
	for range n {
		it := m.newItem()
		request += it.data + "\n"
		m.ready[queue] = append(m.ready[queue], it)
	}
	m.ask(m.text, request+"\n", fmt.Sprintf("+%d\n", n))
}

func (m *protocolModel) textGet(rt *rapid.T) {
	queue := m.queue(rt)
	taken, want := m.take(queue, 1), "*\n"
	if len(taken) > 0 {
		want = ":" + taken[0].data + "\n"
	}
	m.ask(m.text, "get "+queue+"\n", want)
	m.open[m.text][queue] = taken // what was open is confirmed
}

func (m *protocolModel) textConfirm(rt *rapid.T) {
	queue, n := m.queue(rt), rapid.IntRange(0, 2).Draw(rt, "count")
	open, want := m.open[m.text], "-Not that many transactions open.\n"
	if n > 0 && n <= len(open[queue]) {
		want = fmt.Sprintf("+%d\n", n)
		open[queue] = open[queue][n:]
	}
	m.ask(m.text, fmt.Sprintf("confirm %s %d\n", queue, n), want)
}

func (m *protocolModel) thriftPut(rt *rapid.T) {
	queue, n := m.queue(rt), rapid.IntRange(0, 4).Draw(rt, "items")
	var items []string
	for range n {
		it := m.newItem()
		items = append(items, it.data)
		m.ready[queue] = append(m.ready[queue], it)
	}
	if got := m.thrift.put(queue, items...); got != int32(n) {
		m.rt.Fatalf("thrift put = %d, want %d", got, n)
	}
}

// readerHas counts the Thrift reads that this connection has open.
func (m *protocolModel) readerHas(queue string) (n int) {
	for _, read := range m.reads {
		if read.reader == m.thrift && read.queue == queue {
			n++
		}
	}
	return n
}

func (m *protocolModel) thriftGet(rt *rapid.T) { m.thriftFetch(rt, 0) }

func (m *protocolModel) thriftOpen(rt *rapid.T) {
	m.thriftFetch(rt, rapid.SampledFrom([]int32{50, 1050}).Draw(rt, "auto_abort"))
}

func (m *protocolModel) thriftFetch(rt *rapid.T, autoAbort int32) {
	queue, n := m.queue(rt), rapid.IntRange(-1, 4).Draw(rt, "max_items")
	limit, room := n, modelReads-m.readerHas(queue)
	if limit < 0 {
		limit = len(m.ready[queue])
	}
	if autoAbort > 0 {
		limit = min(limit, room)
	}
	if room == 0 {
		limit = 0
	}
	taken := m.take(queue, limit)
	items, ids := m.thrift.get(queue, thrift.GetOptions{MaxItems: int32(n), AutoAbortMillis: autoAbort})
	var want []string
	for _, it := range taken {
		want = append(want, it.data)
	}
	if items != strings.Join(want, " ") {
		m.rt.Fatalf("thrift get %s, at most %d: %q, want %q", queue, n, items, want)
	}
	if autoAbort == 0 {
		return
	}
	for i, id := range ids {
		m.order++
		deadline := time.Now().Add(time.Duration(autoAbort) * time.Millisecond)
		m.reads[id] = modelRead{queue, taken[i], deadline, m.order, m.thrift}
	}
}

// thriftTouch has a read come back later, or sooner.
func (m *protocolModel) thriftTouch(rt *rapid.T) {
	if len(m.reads) == 0 {
		rt.Skip("nothing is open")
	}
	ids := slices.SortedFunc(maps.Keys(m.reads), m.byOrder)
	id := ids[rapid.IntRange(0, len(ids)-1).Draw(rt, "read")]
	read := m.reads[id]
	autoAbort := rapid.SampledFrom([]int32{50, 1050}).Draw(rt, "auto_abort")
	r := m.thrift.call(m.thrift.codec.AppendTouch(nil, m.thrift.next(), []byte(read.queue), id, autoAbort))
	read.deadline = time.Now().Add(time.Duration(autoAbort) * time.Millisecond)
	if got := time.UnixMilli(r.Due); r.Failed || got.Sub(read.deadline).Abs() > 2*time.Millisecond {
		m.rt.Fatalf("touch = %+v, want about %d", r, read.deadline.UnixMilli())
	}
	m.reads[id] = read
}

// thriftEnd confirms or aborts some reads, from whatever connection there is by now.
func (m *protocolModel) thriftEnd(rt *rapid.T) {
	queue := m.queue(rt)
	some := rapid.Custom(func(rt *rapid.T) bool { return rapid.Bool().Draw(rt, "this") })
	var ids []int64
	var ended []modelRead
	for _, id := range slices.SortedFunc(maps.Keys(m.reads), m.byOrder) {
		if !some.Draw(rt, "id") {
			continue
		}
		ids = append(ids, id)
		if m.reads[id].queue == queue {
			ended = append(ended, m.reads[id])
			delete(m.reads, id)
		}
	}
	slices.Sort(ids) // which is at random
	end := m.thrift.confirm
	if rapid.Bool().Draw(rt, "abort") {
		end = m.thrift.abort
		m.returnReads(ended)
	}
	if n := end(queue, ids...); n != int32(len(ended)) {
		m.rt.Fatalf("%d reads of %s ended, want %d", n, queue, len(ended))
	}
}

func (m *protocolModel) byOrder(a, b int64) int {
	return cmp.Compare(m.reads[a].order, m.reads[b].order)
}

// returnReads puts the items of reads back in their places in line.
func (m *protocolModel) returnReads(reads []modelRead) {
	for _, read := range reads {
		m.ready[read.queue] = append(m.ready[read.queue], read.item)
	}
	for _, queue := range modelQueues {
		slices.SortFunc(m.ready[queue][m.back[queue]:], bySeq)
	}
}

// hangUp replaces a client. Memcache and text bring its reads back; Thrift and Burrow leave them open.
func (m *protocolModel) hangUp(rt *rapid.T) {
	switch rapid.SampledFrom([]string{"memcache", "text", "thrift", "burrow"}).Draw(rt, "client") {
	case "memcache":
		m.memcache = m.replace(m.memcache)
	case "text":
		m.text = m.replace(m.text)
	case "thrift":
		m.thrift.hangUp()
		m.thrift = m.ts.dialThrift()
	case "burrow":
		m.burrow.hangUp()
		m.burrow = m.ts.dial(burrowProtocol{})
	}
}

func (m *protocolModel) replace(c *testClient) *testClient {
	proto := c.session.proto
	c.hangUp()
	for _, queue := range modelQueues {
		m.giveBack(queue, m.open[c][queue])
	}
	delete(m.open, c)
	c = m.ts.dial(proto)
	m.open[c] = make(map[string][]modelItem)
	return c
}

// pass lets time pass, after which Thrift reads that nobody ended are back, and messages that were hidden.
func (m *protocolModel) pass(*rapid.T) {
	pass(100 * time.Millisecond)
	var due []modelRead
	for _, id := range slices.SortedFunc(maps.Keys(m.reads), m.byOrder) {
		if !m.reads[id].deadline.After(time.Now()) {
			due = append(due, m.reads[id])
			delete(m.reads, id)
		}
	}
	m.returnReads(due)
	m.showDue()
}

func (m *protocolModel) flush(rt *rapid.T) {
	queue := m.queue(rt)
	m.ask(m.memcache, "flush "+queue+"\r\n", "END\r\n")
	m.ready[queue], m.back[queue] = nil, 0
	m.forgetHidden(queue)
}

// delete deletes a queue. What is open of it still counts for its memcache and text clients, and never comes
// back.
func (m *protocolModel) delete(rt *rapid.T) {
	queue := m.queue(rt)
	m.ask(m.memcache, "delete "+queue+"\r\n", "DELETED\r\n")
	m.ready[queue], m.back[queue] = nil, 0
	for _, open := range m.open {
		for i := range open[queue] {
			open[queue][i].dead = true
		}
	}
	maps.DeleteFunc(m.reads, func(_ int64, read modelRead) bool { return read.queue == queue })
	m.forgetHidden(queue)
}

// kill ends the server as kill -9 would.
func (m *protocolModel) kill(*rapid.T) {
	m.ts.kill()
	m.restart()
}

// stop ends the server while clients are connected and reads are open.
func (m *protocolModel) stop(*rapid.T) {
	m.ts.stop()
	m.restart()
}

// restart starts another server. What memcache and text clients had open is back, everything in the order it
// was put. Reads of Thrift stay open, and hidden messages hidden.
func (m *protocolModel) restart() {
	m.ts.start()
	for _, queue := range modelQueues {
		for _, open := range m.open {
			m.ready[queue] = append(m.ready[queue], open[queue]...)
		}
		m.ready[queue] = slices.DeleteFunc(m.ready[queue], modelItem.isDead)
		slices.SortFunc(m.ready[queue], bySeq)
		m.back[queue] = 0
	}
	m.dial()
}
