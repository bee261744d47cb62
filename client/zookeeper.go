package client

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/kestrelmq/kestrel/client/discovery"
)

// zkScheme begins the address of servers that ZooKeeper knows.
const zkScheme = "zk://"

// ZooKeeper returns a Source of the servers that announce themselves in ZooKeeper. These are servers of this project
// with the table [discovery] in their configuration, and those of the original Kestrel. Puts go to the set write,
// everything else to the set read. Servers that do not speak the memcache protocol are left out.
func ZooKeeper(config discovery.Config) Source { return zookeeper{config} }

type zookeeper struct{ config discovery.Config }

// Watch implements [Source].
func (z zookeeper) Watch(ctx context.Context, report func(Members)) error {
	return discovery.Watch(ctx, z.config, func(m discovery.Members) {
		report(Members{Write: memcacheOf(m.Write), Read: memcacheOf(m.Read)})
	})
}

// memcacheOf returns where members speak the memcache protocol.
func memcacheOf(members []discovery.Member) (servers []string) {
	for _, m := range members {
		if e, ok := m.Endpoint(discovery.Memcache); ok {
			servers = append(servers, e.String())
		}
	}
	return servers
}

// parseZooKeeper returns the configuration that an address names:
//
//	zk://z1,z2:2181/kestrel/production
//	zk://user:password@z1/kestrel
//
// The path is that of the sets, or of one of them.
func parseZooKeeper(address string) (discovery.Config, error) {
	u, err := url.Parse(address)
	if err != nil || !strings.HasPrefix(address, zkScheme) || u.RawQuery != "" || u.Fragment != "" {
		return discovery.Config{}, fmt.Errorf("address %q: want zk://host:port,host:port/path", withoutLogin(address))
	}
	config := discovery.Config{Path: strings.TrimSuffix(u.Path, "/")}
	for _, set := range []string{"/read", "/write"} {
		config.Path = strings.TrimSuffix(config.Path, set)
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		if host != "" {
			config.Hosts = append(config.Hosts, host)
		}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		config.Credentials = u.User.Username() + ":" + password
	}
	if err := config.Validate(); err != nil {
		return discovery.Config{}, fmt.Errorf("address %q: %w", u.Redacted(), err)
	}
	return config, nil
}
