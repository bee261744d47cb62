package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/netloop"
)

// UserOptions returns the keys of [users.NAME]. A reload applies them all.
func UserOptions() []Group[access.User] {
	return []Group[access.User]{{"Users", []Option[access.User]{{
		Key: "password", Live: true, Secret: true,
		Help: "hash of the password, as 'kestrel user hash' makes it",
		At: func(u *access.User) Value {
			return optional(&u.Password, access.Hash{}, hashValue{&u.Password})
		},
	}, {
		Key: "certificates", Live: true,
		Help: "names in the user's certificates: CN=alice,O=Acme or dns:alice.example",
		At:   func(u *access.User) Value { return textsValue{&u.Certificates} },
	}, {
		Key: "tokens", Live: true, Secret: true,
		Help: "hashes of tokens for HTTP, as 'kestrel user token' makes them",
		At:   func(u *access.User) Value { return tokensValue{&u.Tokens} },
	}, {
		Key: "account", Live: true,
		Help: "binds the user to queues of one account; patterns then need no account",
		At: func(u *access.User) Value {
			return optional(&u.Account, "", textValue{&u.Account, "name", "acme"})
		},
	}, {
		Key: "allow", Live: true,
		Help: "what the user may do: a verb and a pattern of queues, each",
		At:   func(u *access.User) Value { return grantsValue{&u.Allow} },
	}, {
		Key: "quota", Live: true,
		Help: "connections, open_reads and waits at once; operations and bytes a second",
		At: func(u *access.User) Value {
			return optional(&u.Quota, access.Quota{}, quotaValue{&u.Quota})
		},
	}}}}
}

// userOptions returns the keys at the top of the file that concern users.
func userOptions() []Option[Config] {
	return []Option[Config]{{
		Key: "tls_self_signed", Flag: "tls-self-signed",
		Help: "encrypts listeners without tls by a certificate of its own, for a try",
		At:   func(c *Config) Value { return boolValue{&c.SelfSigned} },
	}, {
		Key: "users_file", Live: true,
		Help: "a file with further [users.NAME] tables; a reload reads it again",
		At: func(c *Config) Value {
			return optional(&c.usersFile, "", textValue{&c.usersFile, "path", "/etc/kestrel/users.toml"})
		},
	}}
}

// applyUsers makes the users of the tables those of the configuration.
func (c *Config) applyUsers(list []*access.User) error {
	users, err := access.NewUsers(list)
	if err == nil && users.Len() > 0 {
		c.Users = users
	}
	return err
}

// authByDefault is how peers of a listener that says nothing of it say who they are.
func (c *Config) authByDefault() netloop.Auth {
	if c.Users == nil {
		return netloop.AuthNone
	}
	return netloop.AuthPassword
}

// hashValue is the hash of a password.
type hashValue struct{ p *access.Hash }

func (h hashValue) Set(v any) error {
	s, ok := v.(string)
	if !ok {
		return errUnwanted
	}
	hash, err := access.ParseHash(s)
	if err != nil {
		return err // without s: it may be the password itself
	}
	*h.p = hash
	return nil
}

func (h hashValue) String() string { return strconv.Quote(h.p.String()) }
func (h hashValue) Kind() string   { return "hash" }
func (h hashValue) Want() string   { return "an argon2id hash, which 'kestrel user hash' makes" }

// tokensValue is a list of hashes of tokens.
type tokensValue struct{ p *[]access.TokenHash }

func (l tokensValue) Set(v any) error {
	var words []string
	if err := (textsValue{&words}).Set(v); err != nil {
		return errUnwanted
	}
	var list []access.TokenHash
	for _, s := range words {
		h, err := access.ParseTokenHash(s)
		if err != nil {
			return err
		}
		list = append(list, h)
	}
	*l.p = list
	return nil
}

func (l tokensValue) String() string {
	var words []string
	for _, h := range *l.p {
		words = append(words, h.String())
	}
	return textsValue{&words}.String()
}

func (l tokensValue) Kind() string { return "hashes" }
func (l tokensValue) Want() string { return "a list of hashes, which 'kestrel user token' makes" }

// grantsValue is a list of what a user may do.
type grantsValue struct{ p *[]access.Grant }

func (l grantsValue) Set(v any) error {
	var words []string
	if err := (textsValue{&words}).Set(v); err != nil {
		return errUnwanted
	}
	var list []access.Grant
	for _, s := range words {
		g, err := access.ParseGrant(s)
		if err != nil {
			return err
		}
		list = append(list, g)
	}
	*l.p = list
	return nil
}

func (l grantsValue) String() string {
	var words []string
	for _, g := range *l.p {
		words = append(words, g.String())
	}
	return textsValue{&words}.String()
}

func (l grantsValue) Kind() string { return "grants" }
func (l grantsValue) Want() string { return `a list of grants such as ["put work*", "get work*"]` }

// authWords are the values of auth, and what says nothing.
func authWords() []string {
	return []string{string(netloop.AuthNone), string(netloop.AuthPassword), string(netloop.AuthCertificate),
		string(netloop.AuthAny)}
}

// authValue is how peers say who they are.
type authValue struct{ p *netloop.Auth }

func (a authValue) Set(v any) error {
	word := ""
	if err := (choiceValue{&word, authWords()}).Set(v); err != nil {
		return err
	}
	*a.p = netloop.Auth(word)
	return nil
}

func (a authValue) String() string { return strconv.Quote(string(*a.p)) }
func (a authValue) Kind() string   { return strings.Join(authWords(), "|") }
func (a authValue) Want() string   { return orList(authWords()) }

// noUsers says why a listener cannot ask who peers are.
func noUsers(auth netloop.Auth) string {
	return fmt.Sprintf("auth is %q, and the file has no [users.NAME]: nobody could connect", auth)
}
