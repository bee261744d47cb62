package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
)

// patience bounds what a case waits for: far longer than it takes.
const patience = 4 * time.Minute

// Run runs the suite. Open returns an empty back end for each case, and has the end of the test close it.
func Run(t *testing.T, open func(t *testing.T) backend.Backend) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { RunCase(t, c.name, open(t)) })
	}
}

// Names returns the names of the cases, for a test that runs each in a room of its own.
func Names() (names []string) {
	for _, c := range cases {
		names = append(names, c.name)
	}
	return names
}

// RunCase runs one case over an empty back end.
func RunCase(t *testing.T, name string, b backend.Backend) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	at := slices.IndexFunc(cases, func(c testCase) bool { return c.name == name })
	if at < 0 {
		t.Fatalf("there is no case %q", name)
	}
	s := &suite{T: t, Backend: b, ctx: ctx}
	cases[at].run(s)
}

// testCase is one case.
type testCase struct {
	name string
	run  func(*suite)
}

// cases are the whole suite.
var cases = []testCase{
	{"order", order}, {"overwrite", overwrite}, {"details", details}, {"paging", paging}, {"hidden", hidden},
	{"lease", lease}, {"deletes", deletes}, {"names", names}, {"missing", missing}, {"invalid", invalid},
	{"tenants", tenants}, {"odd names", oddNames}, {"bodies", bodies}, {"updates", updates}, {"expiry", expiry},
	{"wait", wait}, {"wait for the end of hiding", waitForHidden}, {"wait ends", waitEnds}, {"shared wait", sharedWait},
	{"many", many}, {"long list", longList}, {"workers", workers}, {"coalescing", coalescing}, {"closed", closed},
}

// suite is one case that runs.
type suite struct {
	*testing.T
	backend.Backend
	ctx context.Context
}

var jobs = backend.Queue{Account: "acme", Name: "jobs"}

func key(q backend.Queue, id string) backend.Key { return backend.Key{Queue: q, ID: id} }

// put makes messages whose bodies are their ids.
func (s *suite) put(q backend.Queue, a backend.Attributes, ids ...string) {
	s.Helper()
	for _, id := range ids {
		if _, err := s.Put(s.ctx, key(q, id), []byte(id), a); err != nil {
			s.Fatalf("Put %s = %v", id, err)
		}
	}
}

// ids returns the ids of the messages that match, or the error, as text.
func (s *suite) ids(q backend.Queue, m backend.Match) string {
	m.Detail = backend.IDs
	return idsOf(backend.Collect(s.Messages(s.ctx, q, m)))
}

func idsOf(list []backend.Message, err error) string {
	if err != nil {
		return err.Error()
	}
	got := ""
	for _, m := range list {
		got += m.ID + " "
	}
	return got
}

// want compares texts.
func (s *suite) want(what, got, want string) {
	s.Helper()
	if got != want {
		s.Errorf("%s = %q, want %q", what, got, want)
	}
}

// wantErr compares an error.
func (s *suite) wantErr(what string, got, want error) {
	s.Helper()
	if !errors.Is(got, want) {
		s.Errorf("%s = %v, want %v", what, got, want)
	}
}

// pass lets time pass: a hidden message shows when it has.
func (s *suite) pass(d time.Duration) {
	s.Helper()
	clock := backend.Queue{Account: "clock", Name: "clock"}
	s.put(clock, backend.Attributes{Hide: d}, "tick")
	if _, err := s.DeleteMessages(s.ctx, clock, backend.Match{Wait: patience}); err != nil {
		s.Fatalf("wait for %v: %v", d, err)
	}
}

// times returns the attributes of a message as text.
func (s *suite) times(k backend.Key) string {
	m, err := s.Message(s.ctx, k, backend.Times)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("ttl %v, hide %v", begun(m.TTL), begun(m.Hide))
}

// begun returns a time of whole minutes that may have begun to pass as it was.
func begun(d time.Duration) time.Duration {
	return (d + time.Minute - 1) / time.Minute * time.Minute
}

func order(s *suite) {
	s.put(jobs, backend.Attributes{}, "b", "a", "c", "B", "10", "9")
	s.put(jobs, backend.Attributes{}, "a")
	s.want("list", s.ids(jobs, backend.Match{}), "b a c B 10 9 ")
	if _, err := s.DeleteMessage(s.ctx, key(jobs, "b"), backend.None); err != nil {
		s.Fatal(err)
	}
	s.put(jobs, backend.Attributes{}, "b")
	s.want("list", s.ids(jobs, backend.Match{}), "a c B 10 9 b ")
	hide := func(d time.Duration) {
		if _, err := s.UpdateMessage(s.ctx, key(jobs, "c"), backend.Attributes{Hide: d}, backend.None); err != nil {
			s.Fatal(err)
		}
	}
	hide(time.Hour)
	s.want("list without the hidden one", s.ids(jobs, backend.Match{}), "a B 10 9 b ")
	hide(time.Second)
	s.pass(2 * time.Second)
	s.want("list", s.ids(jobs, backend.Match{}), "a c B 10 9 b ")
}

func overwrite(s *suite) {
	created, err := s.Put(s.ctx, key(jobs, "m"), []byte("one"), backend.Attributes{TTL: time.Hour, Hide: time.Minute})
	if !created || err != nil {
		s.Fatalf("Put = %v, %v", created, err)
	}
	s.want("times", s.times(key(jobs, "m")), "ttl 1h0m0s, hide 1m0s")
	created, err = s.Put(s.ctx, key(jobs, "m"), []byte("two"), backend.Attributes{})
	if created || err != nil {
		s.Fatalf("Put again = %v, %v", created, err)
	}
	s.want("times of the new one", s.times(key(jobs, "m")), "ttl 10m0s, hide 0s")
	m, err := s.Message(s.ctx, key(jobs, "m"), backend.All)
	s.want("body", string(m.Body), "two")
	s.wantErr("Message", err, nil)
	s.put(jobs, backend.Attributes{TTL: backend.Forever, Hide: 90500 * time.Millisecond}, "m")
	s.want("times for ever", s.times(key(jobs, "m")), "ttl 0s, hide 2m0s")
	s.want("list", s.ids(jobs, backend.Match{Hidden: true}), "m ")
}

func details(s *suite) {
	s.put(jobs, backend.Attributes{TTL: time.Hour, Hide: time.Hour}, "m")
	k := key(jobs, "m")
	full := backend.Message{ID: "m", TTL: time.Hour, Hide: time.Hour, Body: []byte("m")}
	for _, tt := range []struct {
		detail backend.Detail
		times  bool
		body   bool
	}{{backend.IDs, false, false}, {backend.Times, true, false}, {backend.Bodies, false, true}, {backend.All, true, true}} {
		check := func(what string, got backend.Message, err error) {
			s.Helper()
			if err != nil || got.ID != full.ID || tt.times && (begun(got.TTL) != full.TTL || begun(got.Hide) != full.Hide) ||
				tt.body && string(got.Body) != "m" {
				s.Errorf("%s with detail %d = %+v, %v", what, tt.detail, got, err)
			}
		}
		got, err := s.Message(s.ctx, k, tt.detail)
		check("Message", got, err)
		got, err = s.UpdateMessage(s.ctx, k, backend.Attributes{TTL: time.Hour}, tt.detail)
		check("UpdateMessage", got, err)
		match := backend.Match{Hidden: true, Detail: tt.detail}
		for _, list := range []func() ([]backend.Message, error){
			func() ([]backend.Message, error) { return backend.Collect(s.Messages(s.ctx, jobs, match)) },
			func() ([]backend.Message, error) { return s.UpdateMessages(s.ctx, jobs, backend.Attributes{}, match) },
			func() ([]backend.Message, error) { return s.DeleteMessages(s.ctx, jobs, match) },
		} {
			got, err := list()
			if err != nil || len(got) != 1 {
				s.Fatalf("list with detail %d = %+v, %v", tt.detail, got, err)
			}
			check("list", got[0], nil)
		}
		s.put(jobs, backend.Attributes{TTL: time.Hour, Hide: time.Hour}, "m")
	}
	got, err := s.Message(s.ctx, k, backend.None)
	if err != nil || got.ID != "" {
		s.Errorf("Message with detail None = %+v, %v", got, err)
	}
	seen := 0
	for m, err := range s.Messages(s.ctx, jobs, backend.Match{Hidden: true}) {
		if seen++; err != nil || m.ID != "" {
			s.Errorf("Messages with detail None yields %+v, %v", m, err)
		}
	}
	if seen != 1 {
		s.Errorf("Messages with detail None yields %d times, want once", seen)
	}
}

func paging(s *suite) {
	s.put(jobs, backend.Attributes{}, "1", "2", "3", "4", "5")
	s.put(jobs, backend.Attributes{Hide: time.Hour}, "2")
	for _, tt := range []struct {
		match backend.Match
		want  string
	}{
		{backend.Match{Limit: 2}, "1 3 "},
		{backend.Match{Limit: 2, Marker: "3"}, "4 5 "},
		{backend.Match{Limit: 9, Marker: "2"}, "3 4 5 "},
		{backend.Match{Marker: "1", Hidden: true, Limit: 1}, "2 "},
		{backend.Match{Marker: "5"}, "Message not found"},
		{backend.Match{Marker: "gone", Limit: 1}, "1 "},
	} {
		s.want(fmt.Sprintf("list of %+v", tt.match), s.ids(jobs, tt.match), tt.want)
		shown := tt.match
		shown.Detail = backend.IDs
		updated := idsOf(s.UpdateMessages(s.ctx, jobs, backend.Attributes{TTL: time.Hour}, shown))
		s.want(fmt.Sprintf("update of %+v", tt.match), updated, tt.want)
	}
	s.want("delete behind 3", idsOf(s.DeleteMessages(s.ctx, jobs, backend.Match{Marker: "3", Limit: 1, Detail: backend.IDs})), "4 ")
	s.want("what is left", s.ids(jobs, backend.Match{Hidden: true}), "1 2 3 5 ")
}
