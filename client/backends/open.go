package backends

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/client/backend/embedded"
	"github.com/kestrelmq/kestrel/client/backend/overhttp"
	"github.com/kestrelmq/kestrel/client/backend/spread"
	"github.com/kestrelmq/kestrel/client/backend/sqlite"
)

// Options configure what [Open] opens. The zero Options are good for most.
type Options struct {
	// Account is the one that calls with account "" are about; "" leaves it to the URL, and then to
	// backend.DefaultAccount.
	Account string
	// TLS is how https:// encrypts; nil checks certificates by the system's authorities.
	TLS *tls.Config
	// User and Password are sent to servers. User "" leaves it to the URLs.
	User, Password string
	// DialTimeout and ReplyTimeout are those of overhttp.Options.
	DialTimeout, ReplyTimeout time.Duration
	// Logger takes what an operator should know; nil discards it.
	Logger *slog.Logger
}

// Open opens the back end that a URL names. It waits for no server. Close it. The error wraps backend.ErrInvalid if no back
// end can have that URL.
func Open(address string, o Options) (backend.Backend, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	account := o.Account
	var b backend.Backend
	var err error
	switch {
	case !ok:
		return nil, refused(address, "it has no scheme; write http://host:port")
	case scheme == "failover":
		b, err = o.failover(strings.Split(rest, ","))
	case scheme == "hash":
		b, err = o.hash(strings.Split(rest, ","))
	default:
		if (scheme == "http" || scheme == "https") && account == "" {
			if address, account, err = cutAccount(address); err != nil {
				return nil, err
			}
		}
		b, err = o.single(address)
	}
	if err != nil {
		return nil, err
	}
	if account == "" {
		account = backend.DefaultAccount
	}
	return &bound{Backend: b, account: account}, nil
}

// refused returns an error about an address, which wraps backend.ErrInvalid.
func refused(address, why string) error {
	return backend.Refuse(backend.ErrInvalid, fmt.Sprintf("address %q: %s", overhttp.Redacted(address), why))
}

// cutAccount returns the URL of a server without the account in its path, and the account.
func cutAccount(address string) (server, account string, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", "", refused(address, "it is no URL")
	}
	if u.Host == "" {
		return "", "", refused(address, "it names no host; want http://host:port")
	}
	account = strings.Trim(u.Path, "/")
	if account != "" {
		if err := backend.CheckAccount(account); err != nil {
			return "", "", refused(address, "what stands behind the host is no account: http://host:port/account")
		}
	}
	u.Path, u.RawPath = "", ""
	return u.String(), account, nil
}

// single opens a back end that is none of several.
func (o *Options) single(address string) (backend.Backend, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest, address = "http", address, "http://"+address
	}
	switch scheme {
	case "http", "https":
		return opened(overhttp.Open(address, overhttp.Options{
			TLS: o.TLS, User: o.User, Password: o.Password, DialTimeout: o.DialTimeout, ReplyTimeout: o.ReplyTimeout,
		}))
	case "memory":
		if strings.Trim(rest, "/") != "" {
			return nil, refused(address, "memory:// has no name")
		}
		return opened(embedded.Memory(embedded.Options{Logger: o.Logger}))
	case "kestrel":
		if !strings.HasPrefix(rest, "/") {
			return nil, refused(address, "it names servers of Kestrel's own protocol, which has no messages: "+
				"write http://host:port, or for an engine in this process kestrel:///directory")
		}
		return opened(embedded.Open(rest, embedded.Options{Logger: o.Logger}))
	case "sqlite":
		if rest == "" {
			return nil, refused(address, "which file? Write sqlite:///path/to/file")
		}
		return opened(sqlite.Open(rest))
	case "failover", "hash":
		return nil, refused(address, "it cannot be a part of another one; hash://a|b,c has failovers")
	}
	return nil, refused(address, "the scheme is not known; there are http, https, kestrel, memory, sqlite, failover and hash")
}

// opened returns b as an interface; nil with an error.
func opened[T backend.Backend](b T, err error) (backend.Backend, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}

// nameOf returns the name of a part, without who asks: errors have it, and a new password must not move a queue.
func nameOf(part string) string {
	if !strings.Contains(part, "://") {
		part = "http://" + part
	}
	if u, err := url.Parse(part); err == nil {
		u.User = nil
		return u.String()
	}
	return part
}

// members opens parts.
func (o *Options) members(parts []string, open func(string) (backend.Backend, error)) (all []spread.Member, err error) {
	for _, part := range parts {
		b, err := open(part)
		if err != nil {
			for _, m := range all {
				err = errors.Join(err, m.Close())
			}
			return nil, err
		}
		first, _, _ := strings.Cut(part, "|")
		all = append(all, spread.Member{Name: nameOf(first), Backend: b})
	}
	return all, nil
}

func (o *Options) failover(parts []string) (backend.Backend, error) {
	members, err := o.members(parts, o.single)
	if err != nil {
		return nil, err
	}
	return spread.Failover(members, spread.Options{Logger: o.Logger}), nil
}

func (o *Options) hash(parts []string) (backend.Backend, error) {
	members, err := o.members(parts, func(part string) (backend.Backend, error) {
		if slot := strings.Split(part, "|"); len(slot) > 1 {
			return o.failover(slot)
		}
		return o.single(part)
	})
	if err != nil {
		return nil, err
	}
	h, err := spread.Hash(members)
	if err != nil {
		for _, m := range members {
			err = errors.Join(err, m.Close())
		}
		return nil, err
	}
	return h, nil
}
