package discovery

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

// full is a member as the original wrote it.
var full = Member{
	Service: Endpoint{"10.1.2.3", 22133},
	Additional: map[string]Endpoint{
		Memcache: {"10.1.2.3", 22133}, Thrift: {"10.1.2.3", 2229}, Text: {"10.1.2.3", 2222},
	},
	Status: Alive,
}

const fullJSON = `{"serviceEndpoint":{"host":"10.1.2.3","port":22133},"additionalEndpoints":` +
	`{"memcache":{"host":"10.1.2.3","port":22133},"thrift":{"host":"10.1.2.3","port":2229},` +
	`"text":{"host":"10.1.2.3","port":2222}},"status":"ALIVE"}`

// fullThrift is the same in Thrift's binary protocol, a field per line.
const fullThrift = "" +
	"0c 0001" + "0b 0001 00000008 31302e312e322e33" + "08 0002 00005675" + "00" +
	"0d 0002 0b 0c 00000001" +
	"00000006 746872696674" + "0b 0001 00000008 31302e312e322e33" + "08 0002 000008b5" + "00" +
	"08 0003 00000002" +
	"08 0004 00000007" +
	"00"

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMemberGolden(t *testing.T) {
	got, err := full.AppendJSON(nil)
	if err != nil || string(got) != fullJSON {
		t.Errorf("AppendJSON = %s, %v\nwant %s", got, err, fullJSON)
	}
	one, err := NewMember(map[string]Endpoint{Text: {"::1", 2222}})
	if err != nil {
		t.Fatal(err)
	}
	got, err = one.AppendJSON(nil)
	want := `{"serviceEndpoint":{"host":"::1","port":2222},"additionalEndpoints":` +
		`{"text":{"host":"::1","port":2222}},"status":"ALIVE"}`
	if err != nil || string(got) != want {
		t.Errorf("AppendJSON = %s, %v\nwant %s", got, err, want)
	}
	if _, err := NewMember(map[string]Endpoint{"http": {"a", 1}}); err == nil {
		t.Error("a member without a protocol of Kestrel is accepted")
	}
}

func TestParseMember(t *testing.T) {
	thrift := full
	thrift.Additional = map[string]Endpoint{Thrift: {"10.1.2.3", 2229}}
	for _, tt := range []struct {
		name, in string
		want     Member
		err      string
	}{
		{"JSON", fullJSON, full, ""},
		{"other order, a shard, more keys", `{"status":"ALIVE","shard":3,"additionalEndpoints":{},"x":[1],` +
			`"serviceEndpoint":{"port":1,"host":"h"}}`,
			Member{Endpoint{"h", 1}, map[string]Endpoint{}, Alive}, ""},
		{"Thrift", string(unhex(t, fullThrift)), thrift, ""},
		{"empty", "", Member{}, "it ends in the middle of a field"},
		{"no endpoint", `{"status":"ALIVE"}`, Member{}, `no usable service endpoint: host "", port 0`},
		{"port", `{"serviceEndpoint":{"host":"h","port":65536}}`, Member{}, "no usable service endpoint"},
		{"cut JSON", fullJSON[:40], Member{}, "not the JSON of a server set"},
		{"huge", `{"` + strings.Repeat("x", maxMember), Member{}, "more than 65536 are not read"},
		{"text", "hello, world", Member{}, "neither the JSON nor the Thrift"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseMember([]byte(tt.in))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("ParseMember = %+v, %v; want an error with %q", got, err, tt.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("ParseMember = %+v, %v\nwant %+v", got, err, tt.want)
			}
		})
	}
	whole := unhex(t, fullThrift)
	for n := range whole {
		if m, err := ParseMember(whole[:n]); err == nil {
			t.Errorf("cut behind %d bytes: %+v and no error", n, m)
		}
	}
}

func FuzzParseMember(f *testing.F) {
	f.Add([]byte(fullJSON))
	f.Add(unhex(f, fullThrift))
	f.Add([]byte(`{"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseMember(data)
		if err != nil {
			return
		}
		once, err := m.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseMember(once)
		if err != nil {
			t.Fatalf("%q becomes %q, which is no member: %v", data, once, err)
		}
		if twice, err := again.AppendJSON(nil); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%q becomes %q and then %q, %v", data, once, twice, err)
		}
	})
}
