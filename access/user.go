package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// User is a person or program with rights. Nobody changes a User that is part of Users.
type User struct {
	Name string
	// Password is what the user's password is checked against; the zero Hash takes none.
	Password Hash
	// Tokens are those that HTTP clients may show in place of the password.
	Tokens []TokenHash
	// Certificates are names that a client's certificate may have: its subject, as in CN=alice,O=Acme, or one of its
	// alternative names. An alternative name has its kind, as in dns:alice.example, email:…, uri:… or ip:….
	Certificates []string
	// Account binds the user to the queues of one account, as the account is spelled in their names; "" binds to
	// none. The patterns of Allow are then those of its queues, without the account.
	Account string
	// Allow is what the user may do.
	Allow []Grant
	// Quota bounds what the user may use.
	Quota Quota

	everywhere Right // granted for every queue
	somewhere  Right // granted for some
}

// Everywhere reports whether the user has all of the rights on every queue.
func (u *User) Everywhere(r Right) bool { return u == nil || u.everywhere&r == r }

// Somewhere reports whether the user has the right on some queue.
func (u *User) Somewhere(r Right) bool { return u == nil || u.somewhere&r != 0 }

// May reports whether the user has a right on the queue called name.
func (u *User) May(r Right, name []byte) bool {
	if u == nil || u.everywhere&r == r {
		return true
	}
	return u.RightsOn(name)&r == r
}

// Sees reports whether the user may see the queue called name in lists and statistics.
func (u *User) Sees(name string) bool {
	if u.Everywhere(Stats) {
		return true
	}
	name, ok := inAccount(u.Account, name)
	for i := range u.Allow {
		if g := &u.Allow[i]; ok && g.Right == Stats && matches(g.Pattern, name) {
			return true
		}
	}
	return false
}

// inAccount returns the name of a queue without its account, for a user that is bound to one. It returns false if the
// queue is of another account.
func inAccount[T string | []byte](account string, name T) (rest T, ok bool) {
	if account == "" {
		return name, true
	}
	own := len(account)
	for i := range len(name) {
		if name[i] == '/' {
			return name[i+1:], i == own && string(name[:i]) == account
		}
	}
	return name, account == defaultAccount
}

// RightsOn returns the rights that the user has on the queue called name.
func (u *User) RightsOn(name []byte) Right {
	if u == nil {
		return allRights
	}
	have := u.everywhere
	name, ok := inAccount(u.Account, name)
	for i := range u.Allow {
		g := &u.Allow[i]
		if ok && have&g.Right == 0 && matches(g.Pattern, name) {
			have |= g.Right
		}
	}
	return have
}

// InAccount reports whether the user has a right on every queue of an account, as that is spelled in names.
func (u *User) InAccount(r Right, account string) bool {
	if u.Everywhere(r) {
		return true
	}
	for i := range u.Allow {
		g := &u.Allow[i]
		switch {
		case g.Right != r:
		case u.Account == account && g.Pattern == everything, u.Account == "" && g.Pattern == account+"/*":
			return true
		}
	}
	return false
}

// Limits of what a configuration may say of users.
const (
	maxName   = 64   // bytes
	maxGrants = 1000 // of one user
)

// CheckName returns what is wrong with the name of a user.
func CheckName(name string) error {
	switch {
	case name == "" || len(name) > maxName:
		return fmt.Errorf("the name of a user has 1 to %d bytes", maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == ':' || r == 0x7f }):
		return errors.New("the name of a user is UTF-8 without spaces, colons and control characters")
	}
	return nil
}

// checkAccount returns what is wrong with the account of a user.
func checkAccount(account string) error {
	if len(account) > maxPattern || !utf8.ValidString(account) || strings.ContainsAny(account, "/.+~\x00*") {
		return fmt.Errorf("account %q: want at most %d bytes of UTF-8, as in the names of its queues, without slash and star; "+
			"dot, plus and tilde are written %%2E, %%2B and %%7E", account, maxPattern)
	}
	return nil
}

// Users are the users of a server. They are immutable, and may be used from any goroutine. Nil has none.
type Users struct {
	byName        map[string]*User
	byToken       map[TokenHash]*User
	byCertificate map[string]*User
	decoys        []Hash // one for each cost of a comparison; see against
}

// NewUsers returns the users in list. It keeps and changes them, so a User belongs to one Users only. It returns every
// problem.
func NewUsers(list []*User) (*Users, error) {
	us := &Users{byName: map[string]*User{}, byToken: map[TokenHash]*User{}, byCertificate: map[string]*User{}}
	var errs []error
	for _, u := range list {
		wrong := func(err error) { errs = append(errs, fmt.Errorf("user %q: %w", u.Name, err)) }
		if err := CheckName(u.Name); err != nil {
			wrong(err)
		}
		if us.byName[u.Name] != nil {
			wrong(errors.New("two users have this name: remove or rename one"))
		}
		us.byName[u.Name] = u
		if len(u.Allow) > maxGrants {
			wrong(fmt.Errorf("allow has more than %d entries", maxGrants))
		}
		for _, g := range u.Allow {
			u.somewhere |= g.Right
			switch {
			case g.Pattern == everything && (u.Account == "" || g.Right == Operate):
				u.everywhere |= g.Right
			case u.Account != "" && strings.Contains(g.Pattern, "/"):
				wrong(fmt.Errorf("%q: the user is bound to account %s, whose queues are written without it", g, u.Account))
			}
		}
		if err := checkAccount(u.Account); err != nil {
			wrong(err)
		}
		for _, token := range u.Tokens {
			if other := us.byToken[token]; other != nil {
				wrong(fmt.Errorf("user %q has the same token: make another", other.Name))
			}
			us.byToken[token] = u
		}
		for _, name := range u.Certificates {
			if err := checkCertificateName(name); err != nil {
				wrong(err)
			}
			if other := us.byCertificate[name]; other != nil {
				wrong(fmt.Errorf("certificate %q belongs to user %q too: remove it from one of them", name, other.Name))
			}
			us.byCertificate[name] = u
		}
	}
	us.decoys = decoysFor(list)
	return us, errors.Join(errs...)
}

// checkCertificateName returns why no certificate has that name, or nil.
func checkCertificateName(name string) error {
	kind, value, ok := strings.Cut(name, ":")
	if ok && value != "" && slices.Contains([]string{"dns", "email", "uri", "ip"}, kind) || strings.Contains(name, "=") {
		return nil
	}
	return fmt.Errorf("no certificate has the name %q: write CN=%s for a subject, or dns:%s, email:, uri: or ip: for an alternative name",
		name, name, name)
}

// decoysFor returns a hash that no password has for each cost of a comparison with a user's password. In most cases
// there is one, since all hashes that were made alike cost the same.
func decoysFor(list []*User) (decoys []Hash) {
	for _, u := range list {
		if !u.Password.IsZero() && !slices.ContainsFunc(decoys, u.Password.costsAs) {
			decoys = append(decoys, decoy(u.Password))
		}
	}
	if len(decoys) == 0 {
		decoys = append(decoys, decoy(defaultCost()))
	}
	return decoys
}

// Len is how many users there are.
func (us *Users) Len() int {
	if us == nil {
		return 0
	}
	return len(us.byName)
}

// Named returns the user called name, or nil.
func (us *Users) Named(name string) *User {
	if us == nil {
		return nil
	}
	return us.byName[name]
}

// WithToken returns the user that has a token, or nil. It compares hashes, so its time says nothing of tokens.
func (us *Users) WithToken(token string) *User {
	if us == nil {
		return nil
	}
	return us.byToken[HashToken(token)]
}

// WithCertificate returns the user whose certificate has one of these names; nil if none has, or more than one.
func (us *Users) WithCertificate(names []string) *User {
	if us == nil {
		return nil
	}
	var found *User
	for _, name := range names {
		switch u := us.byCertificate[name]; {
		case u == nil || u == found:
		case found != nil:
			return nil
		default:
			found = u
		}
	}
	return found
}
