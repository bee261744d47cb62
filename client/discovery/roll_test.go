package discovery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRoll calls a set whose nodes come and go. The server's letter and the node's number name a node. A call after an
// outage begins with "!", and the servers that are present are written as letters.
func TestRoll(t *testing.T) {
	type call struct {
		at    string // since the first call
		found string
		want  string
	}
	for _, tt := range []struct {
		name  string
		calls []call
	}{
		{"one leaves", []call{{"0s", "a0 b1 c2", "abc"}, {"1s", "a0 c2", "ac"}, {"2s", "a0 b3 c2", "abc"}}},
		{"one after the other leaves", []call{{"0s", "a0 b1 c2", "abc"}, {"6s", "b1 c2", "bc"}, {"12s", "c2", "c"}, {"18s", "", ""}}},
		{"all are lost in an outage", []call{{"0s", "a0 b1 c2", "abc"}, {"60s", "!", "abc"}, {"61s", "b3", "bac"},
			{"62s", "b3 a4", "bac"}, {"65s", "b3 a4", "ba"}}},
		{"one is back and leaves", []call{{"0s", "a0 b1 c2", "abc"}, {"60s", "!", "abc"}, {"61s", "b3", "bac"}, {"62s", "", "ac"},
			{"63s", "a4", "ac"}, {"65s", "a4", "a"}}},
		{"nodes are seen once more behind the outage", []call{{"0s", "a0 b1 c2", "abc"}, {"60s", "!a0 b1 c2", "abc"}, {"60s", "b1", "bac"},
			{"60s", "", "abc"}, {"61s", "a3", "abc"}, {"62s", "", "bc"}, {"63s", "c4 b5", "cb"}, {"65s", "c4 b5", "cb"}}},
		{"all vanish and ZooKeeper seems well", []call{{"0s", "a0 b1 c2", "abc"}, {"60s", "", "abc"}, {"61s", "a3", "abc"},
			{"62s", "", "bc"}, {"63s", "b4", "bc"}, {"65s", "b4", "b"}}},
		{"they vanish in two steps", []call{{"0s", "a0 b1 c2", "abc"}, {"60s", "c2", "c"}, {"60.1s", "", "abc"}, {"61s", "a3", "abc"},
			{"62s", "", "bc"}, {"65.1s", "", ""}}},
		{"the first is back before the last vanishes", []call{{"0s", "a0 b1 c2", "abc"}, {"60s", "c2", "c"}, {"60.1s", "a3 c2", "ac"},
			{"60.2s", "a3", "abc"}, {"61s", "", "bc"}}},
		{"a lone server leaves", []call{{"0s", "a0", "a"}, {"60s", "", ""}, {"61s", "b1", "b"}}},
		{"a name is given again", []call{{"0s", "a0 b1", "ab"}, {"60s", "!b0", "ba"}, {"61s", "b0 a1", "ba"}, {"65s", "b0 a1", "ba"}}},
		{"a second outage follows", []call{{"0s", "a0 b1", "ab"}, {"60s", "!", "ab"}, {"61s", "a2 b3", "ab"}, {"62s", "!", "ab"},
			{"66s", "b4", "ba"}, {"67s", "b4", "b"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r roll
			begin := time.Now()
			for _, call := range tt.calls {
				after, err := time.ParseDuration(call.at)
				if err != nil {
					t.Fatal(err)
				}
				text, outage := strings.CutPrefix(call.found, "!")
				var found []node
				for name := range strings.FieldsSeq(text) {
					found = append(found, node{path: "member_" + name[1:], owner: int64(name[0]), member: Member{Service: Endpoint{Host: name[:1]}}})
				}
				got := ""
				for _, n := range r.call(slices.Clone(found), begin.Add(after), outage) {
					got += n.member.Service.Host
				}
				if got != call.want {
					t.Errorf("%s: with %q there are %q, want %q", call.at, call.found, got, call.want)
				}
			}
			if n := len(r.sightings); n > 10 {
				t.Errorf("%d sightings are kept", n)
			}
		})
	}
}

// TestRollForgets has servers come and go for a long time: what is kept stays small.
func TestRollForgets(t *testing.T) {
	var r roll
	begin := time.Now()
	for i := range 10_000 {
		r.call([]node{{path: fmt.Sprint(i), owner: 1}}, begin.Add(time.Duration(i)*time.Second), i%100 == 0)
	}
	if n := len(r.sightings); n > 10 {
		t.Errorf("%d sightings are kept", n)
	}
}
