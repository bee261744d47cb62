package netloop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// The model's Burrow client uses account default: its messages are the items of the others. It sees them, and takes
// them, in the order in which they were put, also those that another client has given back to the head.

// modelHidden is a message that the Burrow client has hidden.
type modelHidden struct {
	queue string
	item  modelItem
	until time.Time
}

// burrowAsk sends a request and returns the status and the body of its reply.
func (m *protocolModel) burrowAsk(method, path, body string) (status int, reply []byte) {
	m.burrow.feed(fmt.Appendf(nil, "%s /v1.0/default/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", method, path,
		len(body), body), 1<<20)
	synctest.Wait()
	out, ended := m.burrow.received()
	r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), nil)
	if err == nil {
		reply, err = io.ReadAll(r.Body)
	}
	if err != nil || ended {
		m.rt.Fatalf("%s %s: got %q, closed %t: %v", method, path, out, ended, err)
	}
	m.burrow.consume(len(out))
	return r.StatusCode, reply
}

// burrowStrings is burrowAsk of what answers with a list of strings, or with 404 if there is none.
func (m *protocolModel) burrowStrings(method, path string) (list []string) {
	status, reply := m.burrowAsk(method, path, "")
	if status == http.StatusNotFound {
		return nil
	}
	if err := json.Unmarshal(reply, &list); err != nil || status != http.StatusOK || len(list) == 0 {
		m.rt.Fatalf("%s %s: %d %s", method, path, status, reply)
	}
	return list
}

// oldest returns up to n items of a queue that were put first, which nobody has.
func (m *protocolModel) oldest(queue string, n int) []modelItem {
	return slices.SortedFunc(slices.Values(m.ready[queue]), bySeq)[:min(n, len(m.ready[queue]))]
}

// takeOldest removes them.
func (m *protocolModel) takeOldest(queue string, n int) []modelItem {
	taken := m.oldest(queue, n)
	back := m.ready[queue][:m.back[queue]]
	m.back[queue] -= len(slices.DeleteFunc(slices.Clone(back), func(it modelItem) bool { return !slices.Contains(taken, it) }))
	m.ready[queue] = slices.DeleteFunc(m.ready[queue], func(it modelItem) bool { return slices.Contains(taken, it) })
	return taken
}

// dataOf are the bytes of items.
func dataOf(items []modelItem) (data []string) {
	for _, it := range items {
		data = append(data, it.data)
	}
	return data
}

func (m *protocolModel) burrowPut(rt *rapid.T) {
	queue, it := m.queue(rt), m.newItem()
	if status, reply := m.burrowAsk("PUT", fmt.Sprintf("%s/%s?ttl=0", queue, it.data), it.data); status != http.StatusCreated {
		m.rt.Fatalf("PUT %s: %d %s", it.data, status, reply)
	}
	m.ready[queue] = append(m.ready[queue], it)
}

// burrowTake deletes the first messages, and gets them.
func (m *protocolModel) burrowTake(rt *rapid.T) {
	queue, n := m.queue(rt), rapid.IntRange(1, 4).Draw(rt, "limit")
	want := dataOf(m.takeOldest(queue, n))
	if got := m.burrowStrings("DELETE", fmt.Sprintf("%s?limit=%d&detail=body", queue, n)); !slices.Equal(got, want) {
		m.rt.Fatalf("DELETE %s: %q, want %q", queue, got, want)
	}
}

// burrowList looks at all messages that are not hidden.
func (m *protocolModel) burrowList(rt *rapid.T) {
	queue := m.queue(rt)
	want := dataOf(m.oldest(queue, len(m.ready[queue])))
	if got := m.burrowStrings("GET", queue+"?detail=body"); !slices.Equal(got, want) {
		m.rt.Fatalf("GET %s: %q, want %q", queue, got, want)
	}
}

// burrowHide hides the first messages.
func (m *protocolModel) burrowHide(rt *rapid.T) {
	queue, n := m.queue(rt), rapid.IntRange(1, 3).Draw(rt, "limit")
	seconds := rapid.SampledFrom([]int{1, 3600}).Draw(rt, "hide")
	status, reply := m.burrowAsk("POST", fmt.Sprintf("%s?limit=%d&hide=%d&detail=all", queue, n, seconds), "")
	var got []struct{ ID, Body string }
	if status != http.StatusNotFound {
		if err := json.Unmarshal(reply, &got); err != nil || status != http.StatusOK {
			m.rt.Fatalf("POST %s: %d %s", queue, status, reply)
		}
	}
	taken := m.takeOldest(queue, n)
	if len(got) != len(taken) {
		m.rt.Fatalf("POST %s: %s, want %d messages", queue, reply, len(taken))
	}
	for i, it := range taken {
		if got[i].Body != it.data {
			m.rt.Fatalf("POST %s: %s, want %q", queue, reply, dataOf(taken))
		}
		m.hidden[got[i].ID] = modelHidden{queue, it, time.Now().Add(time.Duration(seconds) * time.Second)}
	}
}

// burrowEnd deletes a hidden message by its id, or shows it again.
func (m *protocolModel) burrowEnd(rt *rapid.T) {
	if len(m.hidden) == 0 {
		rt.Skip("nothing is hidden")
	}
	ids := slices.Sorted(maps.Keys(m.hidden))
	id := ids[rapid.IntRange(0, len(ids)-1).Draw(rt, "message")]
	hidden := m.hidden[id]
	method, path := "DELETE", hidden.queue+"/"+id
	if rapid.Bool().Draw(rt, "show") {
		method, path = "POST", path+"?hide=0"
		m.show(id)
	}
	delete(m.hidden, id)
	if status, reply := m.burrowAsk(method, path, ""); status != http.StatusNoContent {
		m.rt.Fatalf("%s %s: %d %s", method, path, status, reply)
	}
}

// show puts a message that was hidden back in its place in line.
func (m *protocolModel) show(id string) {
	hidden := m.hidden[id]
	m.returnReads([]modelRead{{queue: hidden.queue, item: hidden.item}})
	delete(m.hidden, id)
}

// showDue shows the messages whose time has come.
func (m *protocolModel) showDue() {
	for id, hidden := range m.hidden {
		if !hidden.until.After(time.Now()) {
			m.show(id)
		}
	}
}

// hiddenOf counts the messages of a queue that are hidden.
func (m *protocolModel) hiddenOf(queue string) (n int) {
	for _, hidden := range m.hidden {
		if hidden.queue == queue {
			n++
		}
	}
	return n
}

// forgetHidden forgets the hidden messages of a queue.
func (m *protocolModel) forgetHidden(queue string) {
	maps.DeleteFunc(m.hidden, func(_ string, hidden modelHidden) bool { return hidden.queue == queue })
}
