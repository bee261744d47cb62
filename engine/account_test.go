package engine

import (
	"slices"
	"testing"
)

func TestAccountNames(t *testing.T) {
	for _, tt := range []struct{ account, queue, name string }{
		{"default", "q", "q"},
		{"default", "a+b", "a+b"},
		{"acme", "q", "acme/q"},
		{"a.b+c", "q~%41", "a%2Eb%2Bc/q%7E%2541"},
		{"é", "ü b", "é/ü b"},
	} {
		name := string(AppendAccountQueue(nil, []byte(tt.account), []byte(tt.queue)))
		if name != tt.name {
			t.Errorf("queue %q of %q is called %q, want %q", tt.queue, tt.account, name, tt.name)
		}
		if account, queue := CutAccount(name); account != tt.account || queue != tt.queue {
			t.Errorf("CutAccount(%q) = %q, %q, want %q, %q", name, account, queue, tt.account, tt.queue)
		}
		if err := ValidateName(name); err != nil {
			t.Errorf("ValidateName(%q) = %v", name, err)
		}
	}
	for _, name := range []string{"/", "a/", "/b", "a/b/c", "default/q", "a/b.c", "a/b~c"} {
		if ValidateName(name) == nil {
			t.Errorf("ValidateName(%q) = nil", name)
		}
	}
}

// TestAccounts checks what of the accounts and their queues is seen: those that have items, the oldest first.
func TestAccounts(t *testing.T) {
	e, _ := newQuiet(t)
	put := func(name string) {
		t.Helper()
		if _, err := e.Put(Now(), []byte(name), PutRequest{Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(accounts []string, queues map[string][]string) {
		t.Helper()
		if got := e.Accounts(Now()); !slices.Equal(got, accounts) {
			t.Errorf("Accounts = %q, want %q", got, accounts)
		}
		for account, want := range queues {
			if got := e.AccountQueues(Now(), []byte(account)); !slices.Equal(got, want) {
				t.Errorf("AccountQueues(%q) = %q, want %q", account, got, want)
			}
			if got := e.AccountHasItems(Now(), []byte(account)); got != (len(want) > 0) {
				t.Errorf("AccountHasItems(%q) = %v", account, got)
			}
		}
	}
	check([]string{}, map[string][]string{"default": nil, "acme": nil})
	for _, name := range []string{"b/z", "b/a", "plain", "a/q"} {
		put(name)
	}
	check([]string{"b", "default", "a"},
		map[string][]string{"b": {"z", "a"}, "default": {"plain"}, "a": {"q"}, "none": nil})
	if _, err := e.Flush(Now(), []byte("b/z"), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Fetch(Now(), []byte("plain"), FetchRequest{Access: OpenRead}, takeAny{}); err != nil {
		t.Fatal(err)
	}
	check([]string{"b", "default", "a"}, map[string][]string{"b": {"a"}, "default": {"plain"}})
	e.Delete(Now(), []byte("b/a"))
	check([]string{"default", "a"}, map[string][]string{"b": nil})
}

// takeAny takes any item.
type takeAny struct{}

func (takeAny) Receive(Item) bool { return true }

// hearing counts what a watcher hears.
type hearing struct{ times int }

func (h *hearing) WaitEnded(*Waiter) { h.times++ }

// TestWatch checks what a watcher hears of, once each.
func TestWatch(t *testing.T) {
	e, _ := newQuiet(t)
	name := []byte("q")
	put := func() { e.Put(Now(), name, PutRequest{Data: []byte("x")}) }
	put()
	var ref ReadRef
	for _, tt := range []struct {
		what  string
		act   func()
		times int
	}{
		{"nothing", func() {}, 0},
		{"a put", put, 1},
		{"two puts", func() { put(); put() }, 1},
		{"an open", func() {
			got, err := e.Fetch(Now(), name, FetchRequest{Access: OpenRead}, takeAny{})
			if err != nil {
				t.Fatal(err)
			}
			ref = got.Read
		}, 0},
		{"an abort", func() { e.Abort(Now(), ref) }, 1},
		{"a peek", func() { e.Fetch(Now(), name, FetchRequest{Access: Peek}, takeAny{}) }, 0},
		{"a put to another queue", func() { e.Put(Now(), []byte("r"), PutRequest{}) }, 0},
		{"a delayed put", func() { e.Put(Now(), name, PutRequest{Extra: &PutExtra{Delay: 1e12}}) }, 1},
		{"its deletion", func() { e.Delete(Now(), name) }, 1},
	} {
		h := &hearing{}
		w := &Waiter{Notify: h}
		if err := e.Watch(Now(), name, w); err != nil {
			t.Fatal(err)
		}
		tt.act()
		if h.times != tt.times {
			t.Errorf("of %s a watcher hears %d times, want %d", tt.what, h.times, tt.times)
		}
		if cancelled := e.CancelWait(w); cancelled != (tt.times == 0) {
			t.Errorf("after %s CancelWait = %v", tt.what, cancelled)
		}
	}
}
