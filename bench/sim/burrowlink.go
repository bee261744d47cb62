package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// burrowLink speaks Burrow's HTTP protocol, to queues of the default account. It puts and leases by version 1.1, and
// takes and looks by version 1.0.
type burrowLink struct {
	pipe
	used   int
	status int
	body   []byte
}

// burrowMessage is a message in a request, or in a reply.
type burrowMessage struct {
	Body       string `json:"body"`
	TTL        int64  `json:"ttl_ms,omitempty"`
	Delay      int64  `json:"delay_ms,omitempty"`
	Receipt    string `json:"receipt,omitempty"`
	Deliveries int    `json:"deliveries,omitempty"`
}

func (l *burrowLink) send(method, path string, form any) {
	var body []byte
	if form != nil {
		var err error
		if body, err = json.Marshal(form); err != nil {
			panic(err)
		}
	}
	l.conn.Write(fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: sim\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body))
}

// ask sends a request, and returns what its reply says of what came of it.
func (l *burrowLink) ask(method, path string, form any) error {
	l.send(method, path, form)
	err := l.reply(&l.used, func(b []byte) (int, error) {
		rest := bytes.NewReader(b)
		lines := bufio.NewReader(rest)
		r, err := http.ReadResponse(lines, &http.Request{Method: method})
		if err != nil {
			return 0, err
		}
		if l.body, err = io.ReadAll(r.Body); err != nil {
			return 0, err
		}
		l.status = r.StatusCode
		return len(b) - rest.Len() - lines.Buffered(), nil
	})
	switch {
	case err != nil:
		return err
	case l.status == http.StatusNotFound:
		return errNone
	case l.status < 300:
		return nil
	case strings.Contains(string(l.body), "ournal"):
		return errUnsure
	case strings.Contains(string(l.body), "disk"):
		return errFull
	}
	return errRefused
}

// oldPath and newPath are those of a queue, in version 1.0 and 1.1.
func oldPath(queue string) string { return "/v1.0/default/" + url.PathEscape(queue) }
func newPath(queue string) string {
	return "/v1.1/default/" + strings.ReplaceAll(url.PathEscape(queue), "+", "%2B")
}

func burrowForm(life, delay time.Duration, items [][]byte) any {
	var messages []burrowMessage
	for _, data := range items {
		messages = append(messages, burrowMessage{Body: string(data), TTL: life.Milliseconds(), Delay: delay.Milliseconds()})
	}
	return map[string]any{"messages": messages}
}

func (l *burrowLink) put(queue string, life time.Duration, items [][]byte) []error {
	return l.stored(queue, burrowForm(life, 0, items), len(items))
}

func (l *burrowLink) putDelayed(queue string, d time.Duration, items [][]byte) []error {
	return l.stored(queue, burrowForm(0, d, items), len(items))
}

// stored puts n messages by one request.
func (l *burrowLink) stored(queue string, form any, n int) (outcomes []error) {
	err := l.ask("POST", newPath(queue)+"/messages", form)
	switch {
	case n > 1 && (err == errRefused || err == nil && l.status == http.StatusMultiStatus):
		err = errFull // some are there
	case err == errNone:
		err = errRefused
	}
	for range n {
		outcomes = append(outcomes, err)
	}
	return outcomes
}

// bodies are what a reply lists.
func (l *burrowLink) bodies() (got []handed) {
	var list []string
	if err := json.Unmarshal(l.body, &list); err != nil {
		panic(fmt.Sprintf("%v: %q", err, l.body))
	}
	for _, body := range list {
		got = append(got, handed{data: []byte(body)})
	}
	return got
}

func (l *burrowLink) takePath(queue string, n int) string {
	return fmt.Sprintf("%s?limit=%d&detail=body", oldPath(queue), n)
}

func (l *burrowLink) take(queue string, wait time.Duration, n int) ([]handed, error) {
	path := l.takePath(queue, n)
	if wait > 0 {
		path += fmt.Sprintf("&wait=%d", (wait+time.Second-1)/time.Second)
	}
	if err := l.ask("DELETE", path, nil); err != nil {
		return nil, err
	}
	return l.bodies(), nil
}

func (l *burrowLink) peek(queue string) ([]byte, error) {
	if err := l.ask("GET", l.takePath(queue, 1), nil); err != nil {
		return nil, err
	}
	return l.bodies()[0].data, nil
}

func (l *burrowLink) lease(queue string, d, wait time.Duration) (handed, error) {
	form := map[string]int64{"lease_ms": d.Milliseconds(), "wait_ms": wait.Milliseconds()}
	if err := l.ask("POST", newPath(queue)+"/receive", form); err != nil {
		return handed{}, err
	}
	var reply struct{ Messages []burrowMessage }
	if err := json.Unmarshal(l.body, &reply); err != nil {
		panic(fmt.Sprintf("%v: %q", err, l.body))
	}
	if len(reply.Messages) == 0 {
		return handed{}, errNone
	}
	m := reply.Messages[0]
	receipt, err := strconv.ParseUint(m.Receipt, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%v: %q", err, l.body))
	}
	return handed{data: []byte(m.Body), id: receipt, deliveries: m.Deliveries}, nil
}

func (l *burrowLink) endLease(queue string, receipt uint64, how ending, d time.Duration) error {
	path := fmt.Sprintf("%s/receipts/%d", newPath(queue), receipt)
	switch how {
	case endConfirm:
		return l.ask("DELETE", path, nil)
	case endExtend:
		return l.ask("POST", path, map[string]any{"lease_ms": d.Milliseconds()})
	case endReject:
		return l.ask("POST", path, map[string]any{"reject": true})
	}
	form := map[string]any{"release": true}
	if d > 0 {
		form["delay_ms"] = d.Milliseconds()
	}
	return l.ask("POST", path, form)
}

func (l *burrowLink) delete(queue string) error {
	if err := l.ask("DELETE", newPath(queue), nil); err != errNone {
		return err
	}
	return errRefused // there is no such queue
}

func (l *burrowLink) stuff(queue string, n int) {
	for range n {
		l.send("GET", oldPath(queue), nil)
	}
}

func (l *burrowLink) blindPut(queue string, life time.Duration, items [][]byte) {
	l.send("POST", newPath(queue)+"/messages", burrowForm(life, 0, items))
}

func (l *burrowLink) blindTake(queue string, n int) { l.send("DELETE", l.takePath(queue, n), nil) }

// flush does nothing: the protocol has no word for it, nor for expire.
func (l *burrowLink) flush(string) error  { return errRefused }
func (l *burrowLink) expire(string) error { return nil }

// open is never called: the reliable reads of this client are leases.
func (l *burrowLink) open(string, time.Duration) (handed, error) { panic("a Burrow client has leases") }
func (l *burrowLink) confirm(string, any) error                  { panic("a Burrow client has leases") }
func (l *burrowLink) abort(string, any) error                    { panic("a Burrow client has leases") }

func (l *burrowLink) closeOpen(string, any, time.Duration) (handed, error) {
	panic("a Burrow client has leases")
}
