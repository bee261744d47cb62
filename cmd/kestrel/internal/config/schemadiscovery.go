package config

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/client/discovery"
)

// Discovery says where the server announces itself. Without hosts it does not.
type Discovery struct {
	Advertise string // address that members carry; "" for the listen address
	// Memcache, Thrift and Text are where clients find these protocols, if that is elsewhere.
	Memcache, Thrift, Text Advertised
	ZooKeeper              discovery.Config
	acl                    string
}

// Advertised is where clients find a protocol. The zero Advertised is the address of all, and the port that the server
// listens on.
type Advertised struct {
	Host string // "" for the address of all
	Port int    // 0 for the port that the server listens on
	Not  bool   // clients are not to find it
}

// defaultDiscovery announces nothing.
func defaultDiscovery() Discovery {
	return Discovery{
		acl:       string(discovery.Open),
		ZooKeeper: discovery.Config{SessionTimeout: discovery.DefaultSessionTimeout},
	}
}

// DiscoveryOptions returns the keys of [discovery].
func DiscoveryOptions() []Group[Discovery] {
	return []Group[Discovery]{{"Discovery", []Option[Discovery]{{
		Key:  "advertise",
		Help: `address that clients are given; "auto" is the listen address`,
		At: func(d *Discovery) Value {
			return automatic(&d.Advertise, "", hostValue{&d.Advertise})
		},
	},
		advertisedOption(discovery.Memcache, func(d *Discovery) *Advertised { return &d.Memcache }),
		advertisedOption(discovery.Thrift, func(d *Discovery) *Advertised { return &d.Thrift }),
		advertisedOption(discovery.Text, func(d *Discovery) *Advertised { return &d.Text }),
	}}}
}

// advertisedOption is the key that says where clients find one protocol.
func advertisedOption(protocol string, of func(*Discovery) *Advertised) Option[Discovery] {
	return Option[Discovery]{
		Key:  "advertise_" + protocol,
		Help: "host or host:port for " + protocol + `, behind NAT; "auto" as the server listens`,
		At: func(d *Discovery) Value {
			at := of(d)
			return optional(at, Advertised{Not: true}, automatic(at, Advertised{}, advertisedValue{at}))
		},
	}
}

// ZooKeeperOptions returns the keys of [discovery.zookeeper].
func ZooKeeperOptions() []Group[Discovery] {
	return []Group[Discovery]{{"ZooKeeper", []Option[Discovery]{{
		Key: "hosts", Was: []string{"zookeeper.host"},
		Help: "servers of the ensemble, with or without ports",
		At:   func(d *Discovery) Value { return ensembleValue{&d.ZooKeeper.Hosts} },
	}, {
		Key: "session_timeout", Was: []string{"zookeeper.sessionTimeout"},
		Help: "how long a server that has died stays in the sets",
		At:   func(d *Discovery) Value { return sessionValue{durationValue{&d.ZooKeeper.SessionTimeout}} },
	}, {
		Key: "path_prefix", Was: []string{"zookeeper.pathPrefix"},
		Help: "path of the sets, which are read and write below it",
		At: func(d *Discovery) Value {
			at := &d.ZooKeeper.Path
			return optional(at, "", textValue{at, "path in ZooKeeper", "/kestrel"})
		},
	}, {
		Key: "credentials", Secret: true, Was: []string{"zookeeper.credentials"},
		Help: "user:password for ZooKeeper",
		At: func(d *Discovery) Value {
			at := &d.ZooKeeper.Credentials
			return optional(at, "", textValue{at, "credentials", "kestrel:secret"})
		},
	}, {
		Key: "acl", Was: []string{"zookeeper.acl"},
		Help: "who may change the server's nodes: everybody, or the same credentials",
		At: func(d *Discovery) Value {
			return choiceValue{&d.acl, []string{string(discovery.Open), string(discovery.Creator)}}
		},
	}}}}
}

// advertisedValue is a host, with a port or without.
type advertisedValue struct{ p *Advertised }

func (a advertisedValue) Set(v any) error {
	s, ok := v.(string)
	if !ok {
		return errUnwanted
	}
	set := Advertised{Host: s}
	if host, port, err := net.SplitHostPort(s); err == nil {
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n >= 1<<16 {
			return errUnwanted
		}
		set = Advertised{Host: host, Port: n}
	}
	if ip := net.ParseIP(set.Host); ip != nil && ip.IsUnspecified() {
		return errors.New(strconv.Quote(s) + " is every address of this machine, and no client can connect to that")
	}
	if err := (hostValue{&set.Host}).Set(set.Host); err != nil {
		return err
	}
	*a.p = set
	return nil
}

func (a advertisedValue) String() string {
	if a.p.Port == 0 {
		return strconv.Quote(a.p.Host)
	}
	return strconv.Quote(net.JoinHostPort(a.p.Host, strconv.Itoa(a.p.Port)))
}

func (a advertisedValue) Kind() string { return "host:port" }
func (a advertisedValue) Want() string {
	return `an address of clients such as "queues.example.com" or "203.0.113.7:22133"`
}

// shortestSession is the shortest session that ZooKeeper grants with its usual settings.
const shortestSession = time.Second

// sessionValue is how long a session lasts.
type sessionValue struct{ durationValue }

func (s sessionValue) Set(v any) error {
	d, err := parseDuration(v)
	if err != nil {
		return err
	}
	if d < shortestSession {
		return errUnwanted
	}
	*s.p = d
	return nil
}

func (s sessionValue) Want() string { return `a duration of 1s or more such as "10s"` }

// ensembleValue is a list of machines, with ports or without.
type ensembleValue struct{ p *[]string }

func (l ensembleValue) Set(v any) error {
	var list []string
	if err := (textsValue{&list}).Set(v); err != nil {
		return errUnwanted
	}
	for _, s := range list {
		if !isHostPort(s) {
			return errors.New(strconv.Quote(s) + " is no host or host:port")
		}
	}
	*l.p = list
	return nil
}

// isHostPort reports whether s is a host, alone or with a port.
func isHostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = s, strconv.Itoa(discovery.DefaultPort)
	}
	n, err := strconv.Atoi(port)
	return err == nil && n > 0 && n < 1<<16 && host != "" && !strings.ContainsAny(host, "/ ,\x00")
}

func (l ensembleValue) String() string { return textsValue(l).String() }
func (l ensembleValue) Kind() string   { return "hosts" }
func (l ensembleValue) Want() string   { return `a list of hosts such as ["zk1:2181", "zk2:2181"]` }
