package client

import (
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
		return fmt.Errorf("address %q: %s", address, fmt.Sprintf(format, args...))
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

// sourceOf returns the servers that an address names, or where to find them.
func sourceOf(address string) (Source, error) {
	if strings.HasPrefix(address, zkScheme) {
		config, err := parseZooKeeper(address)
		return ZooKeeper(config), err
	}
	servers, err := ParseAddress(address)
	return Static(servers...), err
}
