package backendtest

import (
	"errors"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
)

func hidden(s *suite) {
	s.put(jobs, backend.Attributes{Hide: time.Hour}, "m")
	s.want("list", s.ids(jobs, backend.Match{}), "Message not found")
	s.want("list of all", s.ids(jobs, backend.Match{Hidden: true}), "m ")
	queues, err := s.Queues(s.ctx, "acme", backend.Names{})
	if err != nil || len(queues) != 1 {
		s.Errorf("Queues = %q, %v", queues, err)
	}
	_, err = s.UpdateMessages(s.ctx, jobs, backend.Attributes{TTL: time.Hour}, backend.Match{})
	s.wantErr("UpdateMessages", err, backend.ErrNoMessage)
	_, err = s.DeleteMessages(s.ctx, jobs, backend.Match{})
	s.wantErr("DeleteMessages", err, backend.ErrNoMessage)
	m, err := s.UpdateMessage(s.ctx, key(jobs, "m"), backend.Attributes{Hide: backend.Visible}, backend.Times)
	if err != nil || m.Hide != 0 {
		s.Errorf("UpdateMessage = %+v, %v", m, err)
	}
	s.want("list", s.ids(jobs, backend.Match{}), "m ")
	_, err = s.UpdateMessages(s.ctx, jobs, backend.Attributes{Hide: time.Hour}, backend.Match{})
	s.wantErr("UpdateMessages", err, nil)
	s.put(jobs, backend.Attributes{}, "m")
	s.want("list after an overwrite", s.ids(jobs, backend.Match{}), "m ")
}

func lease(s *suite) {
	s.put(jobs, backend.Attributes{}, "1", "2", "3")
	take := func(n int) string {
		return idsOf(s.UpdateMessages(s.ctx, jobs, backend.Attributes{Hide: time.Minute}, backend.Match{Limit: n, Detail: backend.IDs}))
	}
	s.want("first worker", take(1), "1 ")
	s.want("second worker", take(2), "2 3 ")
	s.want("third worker", take(1), "Message not found")
	s.want("times", s.times(key(jobs, "2")), "ttl 10m0s, hide 1m0s")
	for _, step := range []struct {
		id   string
		hide time.Duration
	}{{"2", time.Hour}, {"3", backend.Visible}} {
		if _, err := s.UpdateMessage(s.ctx, key(jobs, step.id), backend.Attributes{Hide: step.hide}, backend.None); err != nil {
			s.Fatal(err)
		}
	}
	s.want("times of the one that was prolonged", s.times(key(jobs, "2")), "ttl 10m0s, hide 1h0m0s")
	s.want("fourth worker", take(1), "3 ")
	m, err := s.DeleteMessage(s.ctx, key(jobs, "1"), backend.All)
	if err != nil || m.ID != "1" || string(m.Body) != "1" || begun(m.Hide) != time.Minute {
		s.Errorf("DeleteMessage = %+v, %v", m, err)
	}
	_, err = s.DeleteMessage(s.ctx, key(jobs, "1"), backend.None)
	s.wantErr("DeleteMessage again", err, backend.ErrNoMessage)
}

func deletes(s *suite) {
	s.put(jobs, backend.Attributes{}, "1", "2", "3")
	s.put(jobs, backend.Attributes{Hide: time.Hour}, "2")
	s.want("delete", idsOf(s.DeleteMessages(s.ctx, jobs, backend.Match{Detail: backend.Bodies})), "1 3 ")
	s.want("list", s.ids(jobs, backend.Match{Hidden: true}), "2 ")
	list, err := s.DeleteMessages(s.ctx, jobs, backend.Match{Hidden: true})
	if err != nil || list != nil {
		s.Errorf("DeleteMessages with detail None = %+v, %v", list, err)
	}
	s.want("list", s.ids(jobs, backend.Match{Hidden: true}), "Account not found")
}

func names(s *suite) {
	for _, q := range []backend.Queue{{Account: "zeta", Name: "q"}, {Account: "acme", Name: "two"}, {Account: "acme", Name: "one"}, {Account: "acme", Name: "three"}} {
		s.put(q, backend.Attributes{}, "m")
	}
	s.put(backend.Queue{Account: "acme", Name: "two"}, backend.Attributes{Hide: time.Hour}, "m")
	text := func(names []string, err error) string {
		if err != nil {
			return err.Error()
		}
		all := ""
		for _, name := range names {
			all += name + " "
		}
		return all
	}
	all := s.pages(func(m backend.Names) ([]string, error) { return s.Queues(s.ctx, "acme", m) })
	if len(all) != 3 {
		s.Fatalf("Queues, one by one = %q", all)
	}
	s.want("Queues", text(s.Queues(s.ctx, "acme", backend.Names{})), text(all, nil))
	s.want("two Queues", text(s.Queues(s.ctx, "acme", backend.Names{Limit: 2})), text(all[:2], nil))
	s.want("Queues behind the first", text(s.Queues(s.ctx, "acme", backend.Names{Marker: all[0]})), text(all[1:], nil))
	s.want("Queues behind the last", text(s.Queues(s.ctx, "acme", backend.Names{Marker: all[2]})), "Queue not found")
	s.want("Queues behind none", text(s.Queues(s.ctx, "acme", backend.Names{Marker: "gone"})), text(all, nil))
	accounts := s.pages(func(m backend.Names) ([]string, error) { return s.Accounts(s.ctx, m) })
	if len(accounts) != 2 {
		s.Fatalf("Accounts, one by one = %q", accounts)
	}
	s.want("Accounts", text(s.Accounts(s.ctx, backend.Names{})), text(accounts, nil))
	s.want("Accounts behind the last", text(s.Accounts(s.ctx, backend.Names{Marker: accounts[1]})), "Account not found")

	s.want("delete of a queue", text(s.DeleteQueues(s.ctx, "acme", backend.Names{Limit: 1})), all[0]+" ")
	s.want("Queues", text(s.Queues(s.ctx, "acme", backend.Names{})), text(all[1:], nil))
	s.want("delete of queues", text(s.DeleteQueues(s.ctx, "acme", backend.Names{})), text(all[1:], nil))
	s.want("delete of no queue", text(s.DeleteQueues(s.ctx, "acme", backend.Names{})), "Account not found")
	s.put(jobs, backend.Attributes{Hide: time.Hour}, "m")
	if deleted, err := s.DeleteAccounts(s.ctx, backend.Names{}); err != nil || len(deleted) != 2 {
		s.Errorf("DeleteAccounts = %q, %v", deleted, err)
	}
	s.want("Accounts", text(s.Accounts(s.ctx, backend.Names{})), "Account not found")
}

// pages returns names one by one, each behind the marker of the one before.
func (s *suite) pages(list func(backend.Names) ([]string, error)) (all []string) {
	for m := (backend.Names{Limit: 1}); len(all) < 100; m.Marker = all[len(all)-1] {
		page, err := list(m)
		if errors.Is(err, backend.ErrNotFound) {
			break
		}
		if err != nil || len(page) != 1 {
			s.Fatalf("a page behind %q = %q, %v", m.Marker, page, err)
		}
		all = append(all, page...)
	}
	return all
}

func missing(s *suite) {
	check := func(q backend.Queue, want error) {
		s.Helper()
		k := key(q, "gone")
		_, err := s.Message(s.ctx, k, backend.All)
		s.wantErr("Message", err, want)
		s.wantErr("Message", err, backend.ErrNotFound)
		_, err = s.UpdateMessage(s.ctx, k, backend.Attributes{TTL: time.Hour}, backend.None)
		s.wantErr("UpdateMessage", err, want)
		_, err = s.DeleteMessage(s.ctx, k, backend.None)
		s.wantErr("DeleteMessage", err, want)
		_, err = backend.Collect(s.Messages(s.ctx, q, backend.Match{Marker: "m", Detail: backend.All}))
		s.wantErr("Messages", err, want)
		_, err = s.UpdateMessages(s.ctx, q, backend.Attributes{}, backend.Match{Marker: "m"})
		s.wantErr("UpdateMessages", err, want)
		_, err = s.DeleteMessages(s.ctx, q, backend.Match{Marker: "m", Detail: backend.IDs})
		s.wantErr("DeleteMessages", err, want)
	}
	check(jobs, backend.ErrNoAccount)
	_, err := s.Accounts(s.ctx, backend.Names{})
	s.wantErr("Accounts", err, backend.ErrNoAccount)
	_, err = s.Queues(s.ctx, "acme", backend.Names{})
	s.wantErr("Queues", err, backend.ErrNoAccount)
	s.put(jobs, backend.Attributes{}, "m")
	check(jobs, backend.ErrNoMessage)
	check(backend.Queue{Account: "acme", Name: "other"}, backend.ErrNoQueue)
	check(backend.Queue{Account: "other", Name: "jobs"}, backend.ErrNoAccount)
}

func updates(s *suite) {
	s.put(jobs, backend.Attributes{TTL: time.Hour}, "1", "2")
	s.want("no attributes", idsOf(s.UpdateMessages(s.ctx, jobs, backend.Attributes{}, backend.Match{Limit: 1, Detail: backend.IDs})), "1 ")
	s.want("times", s.times(key(jobs, "1")), "ttl 1h0m0s, hide 0s")
	list, err := s.UpdateMessages(s.ctx, jobs, backend.Attributes{TTL: backend.Forever}, backend.Match{Detail: backend.All})
	if err != nil || len(list) != 2 || list[1].TTL != 0 || string(list[1].Body) != "2" {
		s.Errorf("UpdateMessages = %+v, %v", list, err)
	}
	list, err = s.UpdateMessages(s.ctx, jobs, backend.Attributes{TTL: time.Minute, Hide: time.Hour}, backend.Match{Limit: 1, Detail: backend.Times})
	if err != nil || len(list) != 1 || begun(list[0].TTL) != time.Minute || begun(list[0].Hide) != time.Hour {
		s.Errorf("UpdateMessages = %+v, %v", list, err)
	}
	s.want("times of 1", s.times(key(jobs, "1")), "ttl 1m0s, hide 1h0m0s")
	s.want("times of 2", s.times(key(jobs, "2")), "ttl 0s, hide 0s")
	m, err := s.UpdateMessage(s.ctx, key(jobs, "2"), backend.Attributes{}, backend.All)
	if err != nil || m.ID != "2" || string(m.Body) != "2" || m.TTL != 0 {
		s.Errorf("UpdateMessage without attributes = %+v, %v", m, err)
	}
}

func expiry(s *suite) {
	s.put(jobs, backend.Attributes{TTL: time.Second}, "short")
	s.put(jobs, backend.Attributes{TTL: time.Second, Hide: time.Hour}, "hidden")
	s.put(jobs, backend.Attributes{TTL: time.Hour}, "long")
	s.put(backend.Queue{Account: "brief", Name: "q"}, backend.Attributes{TTL: time.Second}, "m")
	s.pass(2 * time.Second)
	s.want("list", s.ids(jobs, backend.Match{Hidden: true}), "long ")
	_, err := s.Message(s.ctx, key(jobs, "hidden"), backend.All)
	s.wantErr("Message", err, backend.ErrNoMessage)
	_, err = s.UpdateMessage(s.ctx, key(jobs, "short"), backend.Attributes{TTL: time.Hour}, backend.None)
	s.wantErr("UpdateMessage", err, backend.ErrNoMessage)
	accounts, err := s.Accounts(s.ctx, backend.Names{})
	if err != nil || len(accounts) != 1 || accounts[0] != "acme" {
		s.Errorf("Accounts = %q, %v", accounts, err)
	}
	created, err := s.Put(s.ctx, key(jobs, "short"), nil, backend.Attributes{})
	if err != nil || !created {
		s.Errorf("Put of an id that has expired = %v, %v, want a new message", created, err)
	}
	s.want("list", s.ids(jobs, backend.Match{}), "long short ")
}
