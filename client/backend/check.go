package backend

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kestrelmq/kestrel/codec/burrow"
)

// Limits of names, in bytes.
const (
	MaxID   = 250
	MaxName = 255 // of an account and a queue together, as a server stores them
)

// maxSeconds is the longest time that a request may name: more than thirty years.
const maxSeconds = 999999999

// Check returns an error that wraps ErrInvalid unless q can be the name of a queue.
func (q Queue) Check() error {
	if err := CheckAccount(q.Account); err != nil {
		return err
	}
	if !isName(q.Name) || q.storedSize() > MaxName ||
		q.Account == DefaultAccount && (strings.ContainsAny(q.Name, ".~") || strings.Trim(q.Name, "+") == "") {
		return Refuse(ErrInvalid, burrow.TextBadName)
	}
	return nil
}

// storedSize is the length of the name that a server stores the queue under: what means something in names
// stands escaped there.
func (q Queue) storedSize() int {
	if q.Account == DefaultAccount {
		return len(q.Name)
	}
	n := len(q.Account) + len("/") + len(q.Name)
	for _, c := range []byte(q.Account + q.Name) {
		if strings.IndexByte("%+.~", c) >= 0 {
			n += 2
		}
	}
	return n
}

// CheckAccount returns an error that wraps ErrInvalid unless an account can have that name.
func CheckAccount(account string) error {
	if !isName(account) || len(account) > MaxName {
		return Refuse(ErrInvalid, burrow.TextBadName)
	}
	return nil
}

// isName reports whether s is UTF-8 without slash and NUL, and not empty.
func isName(s string) bool {
	return s != "" && !strings.ContainsAny(s, "/\x00") && utf8.ValidString(s)
}

// Check returns an error that wraps ErrInvalid unless a client may give a message that key.
func (k Key) Check() error {
	if err := k.Queue.Check(); err != nil {
		return err
	}
	if k.ID == "" || len(k.ID) > MaxID || k.ID[0] == burrow.ReservedPrefix || !utf8.ValidString(k.ID) ||
		strings.ContainsFunc(k.ID, func(c rune) bool { return c < ' ' || c == 0x7f || c == '/' }) {
		return Refuse(ErrInvalid, burrow.TextBadID)
	}
	return nil
}

// CheckAny is Check for a message that may be there already. If a client of another protocol put it, its id begins with
// @.
func (k Key) CheckAny() error {
	if k.ID != "" && k.ID[0] == burrow.ReservedPrefix {
		k.ID = k.ID[1:]
	}
	return k.Check()
}

// Check returns an error that wraps ErrInvalid unless a has times that a message can have.
func (a Attributes) Check() error {
	switch {
	case a.TTL < 0 && a.TTL != Forever || a.TTL > maxSeconds*time.Second:
		return Refuse(ErrInvalid, "ttl: not a time from 0 to 999999999 seconds.")
	case a.Hide < 0 && a.Hide != Visible || a.Hide > maxSeconds*time.Second:
		return Refuse(ErrInvalid, "hide: not a time from 0 to 999999999 seconds.")
	}
	return nil
}

// Check returns an error that wraps ErrInvalid unless m has numbers that make sense.
func (m Match) Check() error {
	switch {
	case m.Limit < 0:
		return Refuse(ErrInvalid, "limit: below zero.")
	case m.Wait < 0:
		return Refuse(ErrInvalid, "wait: below zero.")
	case m.Detail > All:
		return Refuse(ErrInvalid, "detail: no such detail.")
	}
	return nil
}

// Check returns an error that wraps ErrInvalid unless m has numbers that make sense.
func (m Names) Check() error {
	if m.Limit < 0 {
		return Refuse(ErrInvalid, "limit: below zero.")
	}
	return nil
}

// Of returns those of all names that match.
func (m Names) Of(all []string) []string {
	if m.Marker != "" {
		for i, name := range all {
			if name == m.Marker {
				all = all[i+1:]
				break
			}
		}
	}
	if m.Limit > 0 && len(all) > m.Limit {
		all = all[:m.Limit]
	}
	return all
}

// Seconds returns d in whole seconds, rounded up; 0 if it is below zero.
func Seconds(d time.Duration) int64 {
	return int64((max(d, 0) + time.Second - 1) / time.Second)
}

// Lifetime returns how long a message lives with these attributes of a Put; 0 is for ever.
func (a Attributes) Lifetime() time.Duration {
	switch {
	case a.TTL == 0:
		return DefaultTTL
	case a.TTL == Forever:
		return 0
	}
	return time.Duration(Seconds(a.TTL)) * time.Second
}

// Hidden returns for how long a message is hidden with these attributes; 0 is not at all.
func (a Attributes) Hidden() time.Duration { return time.Duration(Seconds(a.Hide)) * time.Second }
