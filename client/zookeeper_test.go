package client

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/client/discovery"
)

func TestParseZooKeeper(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want discovery.Config
		err  string
	}{
		{"zk://z1/kestrel", discovery.Config{Hosts: []string{"z1"}, Path: "/kestrel"}, ""},
		{"zk://z1:2181,z2:2182/a/b/read", discovery.Config{Hosts: []string{"z1:2181", "z2:2182"}, Path: "/a/b"}, ""},
		{"zk://z1/kestrel/write/", discovery.Config{Hosts: []string{"z1"}, Path: "/kestrel"}, ""},
		{"zk://u:p@z1/k", discovery.Config{Hosts: []string{"z1"}, Path: "/k", Credentials: "u:p"}, ""},
		{"zk://z1", discovery.Config{}, "want an absolute path"},
		{"zk:///kestrel", discovery.Config{}, "no ZooKeeper hosts"},
		{"zk://z1/k?x=1", discovery.Config{}, "want zk://host:port"},
		{"zk://u:secret@z1/", discovery.Config{}, "u:xxxxx@z1"},
		{"zk://u:secret%@z1/k", discovery.Config{}, `"zk://…@z1/k": want zk://host:port`},
		{"zk://u:secret@z1/k?x", discovery.Config{}, `"zk://…@z1/k?x": want zk://host:port`},
	} {
		got, err := parseZooKeeper(tt.in)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "secret") {
				t.Errorf("parseZooKeeper(%q) = %+v, %v; want an error with %q", tt.in, got, err, tt.err)
			}
		} else if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("parseZooKeeper(%q) = %+v, %v; want %+v", tt.in, got, err, tt.want)
		}
	}
}

func TestMemcacheOf(t *testing.T) {
	members := []discovery.Member{
		{Service: discovery.Endpoint{Host: "a", Port: 1}, Additional: map[string]discovery.Endpoint{
			discovery.Memcache: {Host: "a", Port: 1}, discovery.Thrift: {Host: "a", Port: 2},
		}},
		{Service: discovery.Endpoint{Host: "b", Port: 3}, Additional: map[string]discovery.Endpoint{
			discovery.Thrift: {Host: "b", Port: 3}, // speaks no memcache
		}},
		{Service: discovery.Endpoint{Host: "::1", Port: 4}, Additional: map[string]discovery.Endpoint{
			discovery.Memcache: {Host: "::1", Port: 4},
		}},
	}
	if got, want := memcacheOf(members), []string{"a:1", "[::1]:4"}; !reflect.DeepEqual(got, want) {
		t.Errorf("memcacheOf = %q, want %q", got, want)
	}
}
