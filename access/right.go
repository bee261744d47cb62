package access

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Right is a set of things that a user may do to queues.
type Right uint8

// The rights, one by one.
const (
	Put     Right = 1 << iota // put items
	Get                       // fetch, remove and touch items, and end reads and leases
	Peek                      // look at items, and list them
	Manage                    // flush and delete
	Stats                     // see name, size and options in lists and statistics
	Operate                   // stop the server, reload, change its status, see its connections; of no queue

	allRights = Put | Get | Peek | Manage | Stats | Operate
)

// rightNames are the verbs of grants, in the order of the bits.
var rightNames = [...]string{"put", "get", "peek", "manage", "stats", "operate"}

// String returns the verbs, joined by commas.
func (r Right) String() string {
	var words []string
	for i, name := range rightNames {
		if r&(1<<i) != 0 {
			words = append(words, name)
		}
	}
	return strings.Join(words, ",")
}

// everything is the pattern that matches every name.
const everything = "*"

// maxPattern is how long a pattern may be, in bytes: names of queues have 255 at most.
const maxPattern = 255

// Grant lets a user do something to the queues whose names match a pattern. In a pattern, * stands for any
// bytes but a slash, or none; all else stands for itself, and case counts. The pattern * alone matches every
// queue. A slash stands between an account and a queue, both spelled as in names: account/queue.
type Grant struct {
	Right   Right
	Pattern string
}

// ParseGrant returns the grant that text, "VERB PATTERN", stands for. The pattern of operate is * and may be
// left out.
func ParseGrant(text string) (Grant, error) {
	verb, pattern, _ := strings.Cut(text, " ")
	i := slices.Index(rightNames[:], verb)
	if i < 0 {
		return Grant{}, fmt.Errorf("%q: the verb must be one of %s", text, strings.Join(rightNames[:], ", "))
	}
	g := Grant{Right: 1 << i, Pattern: pattern}
	if g.Right == Operate {
		if pattern != "" && pattern != everything {
			return Grant{}, fmt.Errorf("%q: operate concerns the whole server: write it alone", text)
		}
		g.Pattern = everything
		return g, nil
	}
	switch {
	case pattern == "":
		return Grant{}, fmt.Errorf("%q: write a pattern of queue names behind the verb, such as %s work*", text, verb)
	case len(pattern) > maxPattern || !utf8.ValidString(pattern):
		return Grant{}, fmt.Errorf("%q: a pattern is at most %d bytes of UTF-8", text, maxPattern)
	case strings.ContainsAny(pattern, ".~\x00"):
		return Grant{}, fmt.Errorf("%q: no name of a queue has a dot, a tilde or a NUL, so the pattern would match none; "+
			"in accounts they are written %%2E and %%7E", text)
	}
	if err := checkSlash(text, pattern); err != nil {
		return Grant{}, err
	}
	return g, nil
}

// defaultAccount is the account of the queues without a slash in their name.
const defaultAccount = "default"

// checkSlash returns what is wrong with the slash of a pattern.
func checkSlash(text, pattern string) error {
	account, queue, found := strings.Cut(pattern, "/")
	switch {
	case !found:
	case account == "" || queue == "" || strings.Contains(queue, "/"):
		return fmt.Errorf("%q: a slash stands between an account and a queue, such as acme/work*", text)
	case account == defaultAccount:
		return fmt.Errorf("%q: the queues of account %s have names without it: write %s", text, defaultAccount, queue)
	}
	return nil
}

// String returns the grant as ParseGrant takes it.
func (g Grant) String() string { return g.Right.String() + " " + g.Pattern }

// matches reports whether a name matches a pattern. It takes time in proportion to the product of their lengths.
func matches[T string | []byte](pattern string, name T) bool {
	if pattern == everything {
		return true
	}
	p, n := 0, 0
	star, from := -1, 0 // the last star, and where its bytes end
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0 && name[from] != '/':
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// Denied refuses what a user may not do. It names only what the user named.
type Denied struct {
	Right Right
	Queue string // "" for all queues, or for the server
}

// Error returns for example "not allowed: get on work".
func (d *Denied) Error() string {
	switch {
	case d.Right == Operate:
		return "not allowed: operate"
	case d.Queue == "":
		return "not allowed: " + d.Right.String() + " on all queues"
	}
	return "not allowed: " + d.Right.String() + " on " + d.Queue
}
