package config

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/kestrelmq/kestrel/netloop"
)

// port is the number of a TCP port, or one of the constants below.
type port int

const (
	portOff  port = 0
	portAuto port = -1 // one that is free
)

// portValue is a port to listen on.
type portValue struct{ p *port }

func (p portValue) Set(v any) error {
	n, ok := v.(int64)
	if !ok || n < 0 || n > 65535 {
		return errUnwanted
	}
	*p.p = port(n)
	return nil
}

func (p portValue) String() string { return strconv.Itoa(int(*p.p)) }
func (p portValue) Kind() string   { return "port" }
func (p portValue) Want() string   { return "a port from 0 to 65535 (0: none)" }

// hostValue is an address to listen on, without a port.
type hostValue struct{ p *string }

func (h hostValue) Set(v any) error {
	s, ok := v.(string)
	_, notIP := netip.ParseAddr(s)
	bad := strings.ContainsAny(s, "/[] \x00") || strings.Contains(s, ":") && notIP != nil
	if !ok || s == "" || bad {
		return errUnwanted
	}
	*h.p = s
	return nil
}

func (h hostValue) String() string { return strconv.Quote(*h.p) }
func (h hostValue) Kind() string   { return "address" }
func (h hostValue) Want() string {
	return `an address without a port such as "127.0.0.1", or "0.0.0.0" for all`
}

// protocol is one of the protocols that the server can speak, each on a port of its own.
type protocol struct {
	Name  string
	key   string // of the configuration
	Flag  string
	port  port // by default
	was   []string
	apply func(o *netloop.Options, addr string) // has the server listen on addr; "" turns it off
	Addr  func(s *netloop.Server) net.Addr      // where the server listens, or nil
}

// Protocols returns what the server speaks. A protocol is added to the configuration, the flags,
// the help and the start-up by adding it here.
func Protocols() []protocol {
	return []protocol{{
		Name: "memcache", key: "memcache_port", Flag: "memcache-port", port: 22133,
		was:   []string{"memcacheListenPort", "port"},
		apply: func(o *netloop.Options, addr string) { o.Memcache = addr },
		Addr:  (*netloop.Server).MemcacheAddr,
	}, {
		Name: "thrift", key: "thrift_port", Flag: "thrift-port", port: 2229,
		was:   []string{"thriftListenPort"},
		apply: func(o *netloop.Options, addr string) { o.Thrift = addr },
		Addr:  (*netloop.Server).ThriftAddr,
	}, {
		Name: "text", key: "text_port", Flag: "text-port", port: 2222,
		was:   []string{"textListenPort"},
		apply: func(o *netloop.Options, addr string) { o.Text = addr },
		Addr:  (*netloop.Server).TextAddr,
	}, {
		Name: "burrow", key: "burrow_port", Flag: "burrow-port",
		apply: func(o *netloop.Options, addr string) { o.Burrow = addr },
		Addr:  (*netloop.Server).BurrowAddr,
	}}
}
