package backendtest

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
)

func invalid(s *suite) {
	bad := func(what string, err error) {
		s.Helper()
		s.wantErr(what, err, backend.ErrInvalid)
	}
	for _, q := range []backend.Queue{
		{Account: "acme"}, {Account: "a\nb\x00", Name: "jobs"}, {Account: "a/b", Name: "q"}, {Account: "a", Name: "q/x"}, {Account: "a", Name: "q\x00"},
		{Account: "\xff", Name: "q"}, {Account: "a", Name: strings.Repeat("x", backend.MaxName)}, {Account: backend.DefaultAccount, Name: "a.b"},
	} {
		_, err := s.Put(s.ctx, key(q, "m"), nil, backend.Attributes{})
		bad(fmt.Sprintf("Put to %q", q), err)
		_, err = backend.Collect(s.Messages(s.ctx, q, backend.Match{}))
		bad(fmt.Sprintf("Messages of %q", q), err)
		_, err = s.Message(s.ctx, key(q, "m"), backend.All)
		bad(fmt.Sprintf("Message of %q", q), err)
	}
	for _, id := range []string{"", "@1.2", "a/b", "a\nb", "\xff", strings.Repeat("x", backend.MaxID+1)} {
		_, err := s.Put(s.ctx, key(jobs, id), nil, backend.Attributes{})
		bad(fmt.Sprintf("Put of %q", id), err)
	}
	for _, a := range []backend.Attributes{{TTL: -2}, {Hide: -time.Second}, {TTL: 1 << 62}, {Hide: 1 << 62}} {
		_, err := s.Put(s.ctx, key(jobs, "m"), nil, a)
		bad(fmt.Sprintf("Put with %+v", a), err)
		_, err = s.UpdateMessages(s.ctx, jobs, a, backend.Match{})
		bad(fmt.Sprintf("UpdateMessages to %+v", a), err)
		_, err = s.UpdateMessage(s.ctx, key(jobs, "m"), a, backend.None)
		bad(fmt.Sprintf("UpdateMessage to %+v", a), err)
	}
	for _, m := range []backend.Match{{Limit: -1}, {Wait: -1}, {Detail: 9}} {
		_, err := s.DeleteMessages(s.ctx, jobs, m)
		bad(fmt.Sprintf("DeleteMessages of %+v", m), err)
	}
	_, err := s.Accounts(s.ctx, backend.Names{Limit: -1})
	bad("Accounts", err)
	_, err = s.Queues(s.ctx, "a/b", backend.Names{})
	bad("Queues", err)
	_, err = s.DeleteQueues(s.ctx, "\xff", backend.Names{})
	bad("DeleteQueues", err)
	_, err = s.Accounts(s.ctx, backend.Names{})
	s.wantErr("Accounts after requests that were refused", err, backend.ErrNoAccount)
}

func tenants(s *suite) {
	theirs := backend.Queue{Account: "other", Name: "jobs"}
	s.put(jobs, backend.Attributes{}, "ours")
	s.put(theirs, backend.Attributes{}, "theirs")
	s.put(backend.Queue{Account: backend.DefaultAccount, Name: "jobs"}, backend.Attributes{}, "plain")
	s.want("ours", s.ids(jobs, backend.Match{}), "ours ")
	_, err := s.DeleteMessages(s.ctx, jobs, backend.Match{Hidden: true})
	s.wantErr("DeleteMessages", err, nil)
	_, err = s.DeleteQueues(s.ctx, "acme", backend.Names{})
	s.wantErr("DeleteQueues", err, backend.ErrNoAccount)
	s.want("theirs", s.ids(theirs, backend.Match{}), "theirs ")
	s.want("plain", s.ids(backend.Queue{Account: backend.DefaultAccount, Name: "jobs"}, backend.Match{}), "plain ")
}

// odd are names that some layer might take for something else.
var odd = []string{"a b", "a+b", "a%2Fb", "..", ".", "a?b=c", "a#b", "ü;☃", "a:b", "%", `"quoted"`, "~", "a&b", "+"}

func oddNames(s *suite) {
	for _, name := range odd {
		q := backend.Queue{Account: "x" + name, Name: name}
		s.put(q, backend.Attributes{}, name, "other")
		s.want(fmt.Sprintf("ids in %q", name), s.ids(q, backend.Match{}), name+" other ")
		s.want(fmt.Sprintf("ids behind %q", name), s.ids(q, backend.Match{Marker: name}), "other ")
		m, err := s.UpdateMessage(s.ctx, key(q, name), backend.Attributes{TTL: time.Hour}, backend.All)
		if err != nil || m.ID != name || string(m.Body) != name {
			s.Errorf("UpdateMessage of %q = %+v, %v", name, m, err)
		}
		queues, err := s.Queues(s.ctx, q.Account, backend.Names{})
		if err != nil || len(queues) != 1 || queues[0] != name {
			s.Errorf("Queues of %q = %q, %v", q.Account, queues, err)
		}
	}
	accounts, err := s.Accounts(s.ctx, backend.Names{})
	if err != nil || len(accounts) != len(odd) {
		s.Errorf("Accounts = %q, %v", accounts, err)
	}
}

func bodies(s *suite) {
	for i, body := range [][]byte{
		{}, []byte("héllo ☃ \U0001F600"), {0xff, 0xfe, 0, 1}, []byte(`"\` + "\u2028<&>\r\n\x00\x7f"),
		bytes.Repeat([]byte("0123456789abcde\n"), 1<<16), bytes.Repeat([]byte{0x80}, 300<<10),
	} {
		id := fmt.Sprint(i)
		given := bytes.Clone(body)
		if _, err := s.Put(s.ctx, key(jobs, id), given, backend.Attributes{}); err != nil {
			s.Fatalf("Put of body %d = %v", i, err)
		}
		clear(given) // it was copied
		m, err := s.Message(s.ctx, key(jobs, id), backend.Bodies)
		if err != nil || !bytes.Equal(m.Body, body) {
			s.Errorf("body %d comes back as %d bytes, %v", i, len(m.Body), err)
		}
		list, err := s.DeleteMessages(s.ctx, jobs, backend.Match{Detail: backend.All})
		if err != nil || len(list) != 1 || !bytes.Equal(list[0].Body, body) {
			s.Errorf("body %d leaves in a list of %d, %v", i, len(list), err)
		}
	}
}

func many(s *suite) {
	var want strings.Builder
	for i := range 300 {
		id := fmt.Sprintf("m%d", i)
		s.put(jobs, backend.Attributes{}, id)
		want.WriteString(id + " ")
	}
	s.want("list", s.ids(jobs, backend.Match{}), want.String())
	got := ""
	for m := (backend.Match{Limit: 7}); ; {
		page := s.ids(jobs, m)
		if page == "Message not found" {
			break
		}
		got += page
		words := strings.Fields(page)
		m.Marker = words[len(words)-1]
	}
	s.want("list in pages", got, want.String())
	s.want("delete with an unknown marker", idsOf(s.DeleteMessages(s.ctx, jobs, backend.Match{Marker: "gone", Detail: backend.IDs})), want.String())
	_, err := s.Accounts(s.ctx, backend.Names{})
	s.wantErr("Accounts", err, backend.ErrNoAccount)
}

// longList lists more than fits into one answer of a server.
func longList(s *suite) {
	body := bytes.Repeat([]byte{'x'}, 300<<10)
	const count = 25
	for i := range count {
		if _, err := s.Put(s.ctx, key(jobs, fmt.Sprint(i)), body, backend.Attributes{}); err != nil {
			s.Fatal(err)
		}
	}
	seen := 0
	for m, err := range s.Messages(s.ctx, jobs, backend.Match{Detail: backend.All}) {
		if err != nil || m.ID != fmt.Sprint(seen) || !bytes.Equal(m.Body, body) {
			s.Fatalf("message %d is %q with %d bytes, %v", seen, m.ID, len(m.Body), err)
		}
		seen++
	}
	if seen != count {
		s.Errorf("the list has %d messages, want %d", seen, count)
	}
	for range s.Messages(s.ctx, jobs, backend.Match{Detail: backend.All}) {
		break // a list may be left
	}
	removed := 0
	for {
		list, err := s.DeleteMessages(s.ctx, jobs, backend.Match{Detail: backend.All})
		if err != nil {
			s.wantErr("DeleteMessages", err, backend.ErrNoAccount)
			break
		}
		for _, m := range list {
			if m.ID != fmt.Sprint(removed) || !bytes.Equal(m.Body, body) {
				s.Fatalf("message %d that was deleted is %q with %d bytes", removed, m.ID, len(m.Body))
			}
			removed++
		}
	}
	if removed != count {
		s.Errorf("%d messages were deleted, want %d", removed, count)
	}
}

// workers has several take messages while others put them: each message goes to one of them.
func workers(s *suite) {
	const putters, takers, each = 3, 4, 40
	var running sync.WaitGroup
	for p := range putters {
		running.Go(func() {
			for i := range each {
				if _, err := s.Put(s.ctx, key(jobs, fmt.Sprintf("%d.%d", p, i)), []byte("x"), backend.Attributes{}); err != nil {
					s.Errorf("Put = %v", err)
				}
			}
		})
	}
	var mu sync.Mutex
	got := map[string]int{}
	for w := range takers {
		running.Go(func() {
			for n := 0; n < putters*each/takers; {
				list, err := s.UpdateMessages(s.ctx, jobs, backend.Attributes{Hide: time.Hour}, long(backend.Match{Limit: 1 + w%2}))
				if err != nil || len(list) == 0 {
					s.Errorf("UpdateMessages = %+v, %v", list, err)
					return
				}
				if w%2 == 1 {
					for _, m := range list[1:] { // give back what would be too much
						if _, err := s.UpdateMessage(s.ctx, key(jobs, m.ID), backend.Attributes{Hide: backend.Visible}, backend.None); err != nil {
							s.Errorf("UpdateMessage = %v", err)
						}
					}
				}
				if _, err := s.DeleteMessage(s.ctx, key(jobs, list[0].ID), backend.None); err != nil {
					s.Errorf("DeleteMessage = %v", err)
				}
				mu.Lock()
				got[list[0].ID]++
				mu.Unlock()
				n++
			}
		})
	}
	running.Wait()
	if len(got) != putters*each {
		s.Errorf("%d messages came, want %d", len(got), putters*each)
	}
	for id, n := range got {
		if n != 1 {
			s.Errorf("message %s went to %d workers", id, n)
		}
	}
}

// coalescing has several overwrite the same few ids: there is one message for each.
func coalescing(s *suite) {
	var running sync.WaitGroup
	var mu sync.Mutex
	created := 0
	for w := range 4 {
		running.Go(func() {
			for i := range 30 {
				made, err := s.Put(s.ctx, key(jobs, fmt.Sprint(i%5)), []byte{byte(w)}, backend.Attributes{})
				if err != nil {
					s.Errorf("Put = %v", err)
				}
				if made {
					mu.Lock()
					created++
					mu.Unlock()
				}
			}
		})
	}
	running.Wait()
	if list, err := backend.Collect(s.Messages(s.ctx, jobs, backend.Match{Detail: backend.All})); err != nil || len(list) != 5 || created != 5 {
		s.Errorf("%d messages, %v, of which %d were made by a Put that says so, want 5", len(list), err, created)
	}
}
