package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// An account is a name space of queues, for protocols that serve several tenants. The queues of
// DefaultAccount are those without an account. A queue of any other account has a name with a slash:
// account, slash, queue. No other protocol can send a slash in a name, so none reaches these queues.
//
// Account and queue may have any characters but slash and NUL. In the name of the queue those that mean
// something in names stand escaped, as a percent sign and two hexadecimal digits: percent, dot, plus and
// tilde. So a queue of an account is never a fanout child.

// DefaultAccount is the account of the queues that have none in their name.
const DefaultAccount = "default"

// AppendAccountQueue appends the name of a queue of an account. Whether it is a legal name shows at its
// first use.
func AppendAccountQueue(dst, account, queue []byte) []byte {
	if string(account) == DefaultAccount {
		return append(dst, queue...)
	}
	dst = appendEscaped(dst, account)
	dst = append(dst, '/')
	return appendEscaped(dst, queue)
}

const escaped = "%+.~"

// appendEscaped appends one part of a name.
func appendEscaped(dst, part []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range part {
		if strings.IndexByte(escaped, c) >= 0 {
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// unescaped returns one part of a name as its account's clients spell it.
func unescaped(part string) string {
	if strings.IndexByte(part, '%') < 0 {
		return part
	}
	b := make([]byte, 0, len(part))
	for i := 0; i < len(part); i++ {
		c := part[i]
		if c == '%' && i+2 < len(part) {
			if _, err := fmt.Sscanf(part[i+1:i+3], "%02X", &c); err == nil {
				i += 2
			}
		}
		b = append(b, c)
	}
	return string(b)
}

// CutAccount returns the account and the queue that name stands for.
func CutAccount(name string) (account, queue string) {
	account, queue, found := strings.Cut(name, "/")
	if !found {
		return DefaultAccount, name
	}
	return unescaped(account), unescaped(queue)
}

// accounts is the table of the queues by account.
type accounts struct {
	mu     sync.Mutex // taken behind a shard's mutex, and held for memory work only
	queues map[string]map[*queue]struct{}
}

// accountOf returns the account part of a queue's name, as it stands there; empty for DefaultAccount.
func accountOf(name string) string {
	if i := strings.IndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return ""
}

func (a *accounts) add(q *queue) {
	a.mu.Lock()
	defer a.mu.Unlock()
	account := accountOf(q.name)
	of := a.queues[account]
	if of == nil {
		of = make(map[*queue]struct{})
		if a.queues == nil {
			a.queues = make(map[string]map[*queue]struct{})
		}
		a.queues[account] = of
	}
	of[q] = struct{}{}
}

func (a *accounts) remove(q *queue) {
	a.mu.Lock()
	defer a.mu.Unlock()
	account := accountOf(q.name)
	of := a.queues[account]
	delete(of, q)
	if len(of) == 0 {
		delete(a.queues, account)
	}
}

// list returns the queues of an account, in no order: at most so many, unless that is 0.
func (a *accounts) list(account string, most int) (queues []*queue) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for q := range a.queues[account] {
		if queues = append(queues, q); len(queues) == most {
			break
		}
	}
	return queues
}

// names returns the accounts.
func (a *accounts) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.queues))
}

// inName returns an account as it stands in the names of its queues.
func inName(account []byte) string {
	if string(account) == DefaultAccount {
		return ""
	}
	return string(appendEscaped(nil, account))
}

// misplacedSlash reports whether name has a slash that does not stand between an account and a queue.
func misplacedSlash(name string) bool {
	account, rest, found := strings.Cut(name, "/")
	return found && (account == "" || rest == "" || account == DefaultAccount || strings.IndexByte(rest, '/') >= 0)
}
