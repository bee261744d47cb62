package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// DefaultPort is the port of the memcache protocol.
const DefaultPort = 22133

// ParseAddress returns the servers that an address names, each as host:port:
//
//	kestrel://10.0.0.5
//	kestrel://a:22133,b:22133,c:22133
//
// The port may be left out, and so may "kestrel://". An IPv6 address stands in brackets.
func ParseAddress(address string) ([]string, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("address %q: %s", withoutLogin(address), fmt.Sprintf(format, args...))
	}
	hosts := address
	if scheme, rest, ok := strings.Cut(address, "://"); ok {
		if scheme != "kestrel" {
			return nil, bad("the scheme %q is not known; write kestrel://host:port", scheme)
		}
		hosts = strings.TrimSuffix(rest, "/")
	}
	if strings.ContainsAny(hosts, "/?#@") {
		return nil, bad("behind kestrel:// stand hosts and ports only, separated by commas")
	}
	var servers []string
	for host := range strings.SplitSeq(hosts, ",") {
		u, err := url.Parse("//" + host)
		if err != nil || u.Hostname() == "" {
			return nil, bad("%q is no host:port", host)
		}
		port := u.Port()
		if port == "" {
			port = strconv.Itoa(DefaultPort)
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, bad("%q has no port from 1 to 65535", host)
		}
		servers = append(servers, net.JoinHostPort(u.Hostname(), port))
	}
	return servers, nil
}

// withoutLogin returns an address for messages: what stands before its hosts may be a password.
func withoutLogin(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return address
	}
	if scheme, _, ok := strings.Cut(address[:at], "://"); ok {
		return scheme + "://…" + address[at:]
	}
	return "…" + address[at:]
}

// takeLogin takes what an address says of how to connect, kestrels:// and a user with a password, into o, and returns
// the address without that. What o says already stays.
func (o *Options) takeLogin(address string) (string, error) {
	scheme, hosts, ok := strings.Cut(address, "://")
	if !ok || scheme != "kestrel" && scheme != "kestrels" {
		return address, nil
	}
	if scheme == "kestrels" && o.TLS == nil {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	at := strings.LastIndexByte(hosts, '@')
	if at < 0 {
		return "kestrel://" + hosts, nil
	}
	u, err := url.Parse("//" + hosts[:at+1] + "host")
	if err != nil || u.User.Username() == "" {
		return "", errors.New("address: want user:password@ before the hosts, with other characters than letters and digits as %XX")
	}
	if o.User == "" {
		o.User = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	return "kestrel://" + hosts[at+1:], nil
}

// sourceOf returns the servers that an address names, or where to find them.
func sourceOf(address string) (Source, error) {
	if strings.HasPrefix(address, zkScheme) {
		config, err := parseZooKeeper(address)
		return ZooKeeper(config), err
	}
	servers, err := ParseAddress(address)
	return Static(servers...), err
}
