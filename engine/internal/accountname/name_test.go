package accountname

import (
	"strings"
	"testing"
)

// FuzzNames tests that the name of any account's queue stands for these two, and says so of no other account.
func FuzzNames(f *testing.F) {
	for _, seed := range [][2]string{{"default", "a+b"}, {"acme", "q~%41"}, {"é", "ü b"}, {"%", "%2"}, {"a%2E", "%%25"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, account, queue string) {
		if account == "" || queue == "" || strings.Contains(account+queue, "/") {
			return
		}
		name := string(Append(nil, []byte(account), []byte(queue)))
		a, q := Cut(name)
		if a != account || q != queue {
			t.Errorf("queue %q of %q is called %q, which stands for %q of %q", queue, account, name, q, a)
		}
		if account == Default {
			return
		}
		if Misplaced(name) || Of(name) != InName([]byte(account)) {
			t.Errorf("%q has its slash in the wrong place, or is of %q and not of %q", name, Of(name), InName([]byte(account)))
		}
		if strings.ContainsAny(name, ".+~") {
			t.Errorf("%q has characters that mean something in names", name)
		}
	})
}
