package config

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/netloop/certs"
	"github.com/kestrelmq/kestrel/netloop/ports"
)

// ProtocolAdmin is the protocol of a listener that operators are answered on.
const ProtocolAdmin = "admin"

// Listener is a [[listener]] table.
type Listener struct {
	Protocol string
	Port     ports.Spec
	Auth     netloop.Auth // "" is what holds by default
	TLS      string       // name of a table [tls.NAME]; "" for none
	Account  string       // of protocol burrow: the account that is served; "" for all
	Origins  []string     // of protocol burrow: web pages that are served
	ReplyKey string       // of protocol memcache: replyQueue or replyRequest; "" is what holds for all
}

// protocolValue is the name of a protocol.
type protocolValue struct{ choiceValue }

func (protocolValue) Kind() string { return "protocol" }

// ListenerOptions returns the keys of [[listener]].
func ListenerOptions() []Group[Listener] {
	return []Group[Listener]{{"Listeners", []Option[Listener]{{
		Key:  "protocol",
		Help: "memcache, text, thrift, burrow or admin",
		At: func(l *Listener) Value {
			return protocolValue{choiceValue{&l.Protocol, []string{netloop.ProtocolMemcache, netloop.ProtocolText,
				netloop.ProtocolThrift, netloop.ProtocolBurrow, ProtocolAdmin}}}
		},
	}, {
		Key:  "address",
		Help: "host:port, [::]:port or unix:/path; port 0 is a free one",
		At:   func(l *Listener) Value { return listenValue{&l.Port.Address} },
	}, {
		Key:  "mode",
		Help: "mode of the file of a Unix socket",
		At:   func(l *Listener) Value { return modeValue{&l.Port.Mode} },
	}, {
		Key:  "group",
		Help: "group of the file of a Unix socket, by name or number",
		At: func(l *Listener) Value {
			return optional(&l.Port.Group, "", textValue{&l.Port.Group, "group", "kestrel"})
		},
	}, {
		Key:  "tls",
		Help: "encrypts with the certificate of [tls.NAME]",
		At: func(l *Listener) Value {
			return optional(&l.TLS, "", textValue{&l.TLS, "name", "public"})
		},
	}, {
		Key:  "auth",
		Help: `how peers say who they are; "auto": by password if there are users`,
		At:   func(l *Listener) Value { return automatic(&l.Auth, "", authValue{&l.Auth}) },
	}, {
		Key:  "account",
		Help: "of burrow: the account that the listener serves",
		At: func(l *Listener) Value {
			return optional(&l.Account, "", textValue{&l.Account, "name", "acme"})
		},
	}, {
		Key:  "allow_origins",
		Help: "of burrow: web pages that may send requests, by origin; \"*\" is all",
		At:   func(l *Listener) Value { return textsValue{&l.Origins} },
	}, {
		Key:  "memcache_reply_key",
		Help: `of memcache: what VALUE repeats; "auto": as at the top of the file`,
		At: func(l *Listener) Value {
			return automatic(&l.ReplyKey, "", choiceValue{&l.ReplyKey, []string{replyQueue, replyRequest}})
		},
	}, {
		Key: "allow_from", Live: true,
		Help: "networks that peers may come from; an empty list admits all",
		At:   func(l *Listener) Value { return networksValue{&l.Port.AllowFrom} },
	}, {
		Key: "max_connections", Live: true,
		Help: "connections to this listener; further ones get an error",
		At: func(l *Listener) Value {
			at := &l.Port.MaxConnections
			return optional(at, 0, countValue[int]{at, 1, math.MaxInt32})
		},
	}}}}
}

// defaultListener is a listener of which nothing is said.
func defaultListener() Listener {
	return Listener{Protocol: netloop.ProtocolMemcache, Port: ports.Spec{
		Address: "127.0.0.1:" + strconv.Itoa(int(Protocols()[0].port)), Mode: ports.DefaultMode,
	}}
}

// misplaced returns why keys of the table of l make no sense beside others, by key.
func (l *Listener) misplaced(table map[string]any) map[string]string {
	wrong := make(map[string]string)
	unix := ports.IsUnix(l.Port.Address)
	for _, key := range []string{"mode", "group"} {
		if _, ok := table[key]; ok && !unix {
			wrong[key] = fmt.Sprintf("only a Unix socket has one, and address is %q", l.Port.Address)
		}
	}
	for key, given := range map[string]bool{"account": l.Account != "", "allow_origins": len(l.Origins) > 0} {
		if given && l.Protocol != netloop.ProtocolBurrow {
			wrong[key] = fmt.Sprintf("only protocol burrow has one, and protocol is %q", l.Protocol)
		}
	}
	if l.ReplyKey != "" && l.Protocol != netloop.ProtocolMemcache {
		wrong["memcache_reply_key"] = fmt.Sprintf("only protocol memcache has one, and protocol is %q", l.Protocol)
	}
	for _, origin := range l.Origins {
		if u, err := url.Parse(origin); origin != "*" && origin != "null" &&
			(err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+strings.ToLower(u.Host) != origin) {
			wrong["allow_origins"] = fmt.Sprintf(`%q: write an origin as browsers do, such as "https://app.example"`, origin)
		}
	}
	if unix && len(l.Port.AllowFrom) > 0 {
		wrong["allow_from"] = "a Unix socket has no networks: mode and group say who may connect"
	}
	return wrong
}

// applyListeners sets what the listeners mean for the server.
func (c *Config) applyListeners() {
	for _, l := range c.Listeners {
		if l.Auth == "" {
			l.Auth = c.authByDefault()
		}
		to, names := &c.Net.Listeners, &c.NetTLS
		if l.Protocol == ProtocolAdmin {
			to, names = &c.AdminPorts, &c.AdminTLS
		}
		*to = append(*to, netloop.Listener{
			Protocol: l.Protocol, Port: l.Port, Auth: l.Auth, Account: l.Account, Origins: l.Origins,
			ReplyKey: netloop.ReplyKey(l.ReplyKey),
		})
		*names = append(*names, l.TLS)
	}
}

// Restarts returns the changes from c to the configuration after that need a restart, by key: what runs, and what
// the file says.
func (c *Config) Restarts(after *Config) [][3]string {
	var changes [][3]string
	changes = append(changes, changesOf("", ServerOptions(), c, after)...)
	changes = append(changes, changesOf(TableDiscovery+".", DiscoveryOptions(), &c.Discovery, &after.Discovery)...)
	changes = append(changes, changesOf(TableDiscovery+"."+TableZooKeeper+".", ZooKeeperOptions(), &c.Discovery, &after.Discovery)...)
	if (c.Users == nil) != (after.Users == nil) {
		has := map[bool]string{true: "none", false: "some"}
		changes = append(changes, [3]string{TableUsers, has[c.Users == nil], has[after.Users == nil]})
	}
	fixed := func(list []Listener) map[string]string {
		all := make(map[string]string)
		for _, l := range list {
			var words []string
			for _, o := range All(ListenerOptions()) {
				if !o.Live {
					words = append(words, o.Key+"="+o.At(&l).String())
				}
			}
			all[l.Protocol+" "+l.Port.Address] = strings.Join(words, " ")
		}
		return all
	}
	was, is := fixed(c.Listeners), fixed(after.Listeners)
	both := maps.Clone(was)
	maps.Copy(both, is)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if was[name] != is[name] {
			changes = append(changes, [3]string{TableListener, cmp.Or(was[name], "none"), cmp.Or(is[name], "none")})
		}
	}
	return append(changes, c.changedTLS(after)...)
}

// changesOf returns the changes of options that a reload does not apply. It does not repeat what is secret.
func changesOf[T any](prefix string, groups []Group[T], before, after *T) (changes [][3]string) {
	for _, o := range All(groups) {
		was, is := o.At(before).String(), o.At(after).String()
		switch {
		case was == is || o.Live:
			continue
		case o.Secret:
			was, is = "some", "others"
		}
		changes = append(changes, [3]string{prefix + o.Key, was, is})
	}
	return changes
}

// changedTLS returns the tables [tls.NAME] that name other files, or have come or gone. What the files hold is read again.
func (c *Config) changedTLS(after *Config) (changes [][3]string) {
	all := make(map[string]certs.Files)
	maps.Copy(all, c.TLS)
	maps.Copy(all, after.TLS)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		say := func(in map[string]certs.Files) string {
			files, ok := in[name]
			if !ok {
				return "none"
			}
			var words []string
			for _, o := range All(TLSOptions()) {
				words = append(words, o.Key+"="+o.At(&files).String())
			}
			return strings.Join(words, " ")
		}
		if was, is := say(c.TLS), say(after.TLS); was != is {
			changes = append(changes, [3]string{TableTLS + "." + name, was, is})
		}
	}
	return changes
}

// listenValue is an address to listen on, with its port.
type listenValue struct{ p *string }

func (l listenValue) Set(v any) error {
	s, ok := v.(string)
	if !ok {
		return errUnwanted
	}
	if err := ports.CheckAddress(s); err != nil {
		return err
	}
	*l.p = s
	return nil
}

func (l listenValue) String() string { return strconv.Quote(*l.p) }
func (l listenValue) Kind() string   { return "address" }
func (l listenValue) Want() string {
	return `an address such as "127.0.0.1:22133", "[::]:22133" or "unix:/run/kestrel.sock"`
}

// modeValue is the mode of a file, as chmod takes it.
type modeValue struct{ p *fs.FileMode }

func (m modeValue) Set(v any) error {
	s, ok := v.(string)
	n, err := strconv.ParseUint(s, 8, 32)
	if !ok || err != nil || n == 0 || n > 0o777 {
		return errUnwanted
	}
	*m.p = fs.FileMode(n)
	return nil
}

func (m modeValue) String() string { return fmt.Sprintf("\"%04o\"", uint32(*m.p)) }
func (m modeValue) Kind() string   { return "mode" }
func (m modeValue) Want() string   { return `the mode of a file in quotes, such as "0660"` }

// networksValue is a list of networks.
type networksValue struct{ p *[]netip.Prefix }

func (n networksValue) Set(v any) error {
	var words []string
	if err := (textsValue{&words}).Set(v); err != nil {
		return errUnwanted
	}
	var list []netip.Prefix
	for _, s := range words {
		network, err := ports.ParseNetwork(s)
		if err != nil {
			return err
		}
		list = append(list, network)
	}
	*n.p = list
	return nil
}

func (n networksValue) String() string {
	var words []string
	for _, network := range *n.p {
		words = append(words, network.String())
	}
	return textsValue{&words}.String()
}

func (n networksValue) Kind() string { return "networks" }
func (n networksValue) Want() string { return `a list of networks such as ["10.0.0.0/8", "::1"]` }
