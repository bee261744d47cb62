package discovery

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Names of the protocols among a member's endpoints.
const (
	Memcache = "memcache"
	Thrift   = "thrift"
	Text     = "text"
)

// Alive is the status of a member that serves; the others are DEAD, STARTING, STOPPING, STOPPED and
// WARNING.
const Alive = "ALIVE"

// Endpoint is where a protocol is spoken.
type Endpoint struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

// String returns the endpoint as host:port.
func (e Endpoint) String() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

// valid reports whether a client can connect to the endpoint.
func (e Endpoint) valid() bool { return e.Host != "" && e.Port > 0 && e.Port < 1<<16 }

// Member is what a server says of itself in a set.
type Member struct {
	// Service is the port of the protocol that the server likes best.
	Service Endpoint
	// Additional has the port of each protocol, by the protocol's name.
	Additional map[string]Endpoint
	// Status is Alive, or why nobody should come.
	Status string
}

// NewMember returns a member that serves some protocols, each on its port. It returns an error if there
// are none.
func NewMember(endpoints map[string]Endpoint) (Member, error) {
	for _, protocol := range []string{Memcache, Thrift, Text} { // the original's order
		if e, ok := endpoints[protocol]; ok {
			return Member{Service: e, Additional: maps.Clone(endpoints), Status: Alive}, nil
		}
	}
	return Member{}, errors.New("a server that speaks none of memcache, thrift and text cannot be announced: " +
		"open one of these ports, or leave out [discovery.zookeeper]")
}

// Endpoint returns where the member speaks a protocol.
func (m *Member) Endpoint(protocol string) (Endpoint, bool) {
	e, ok := m.Additional[protocol]
	return e, ok && e.valid()
}

// maxMember is the most bytes of a node that are looked at. ZooKeeper itself allows a mebibyte.
const maxMember = 64 << 10

// AppendJSON appends the member as Finagle's server sets write it: no spaces, the keys in a fixed
// order.
func (m *Member) AppendJSON(b []byte) ([]byte, error) {
	var err error
	add := func(v any) {
		text, e := json.Marshal(v)
		b, err = append(b, text...), errors.Join(err, e)
	}
	b = append(b, `{"serviceEndpoint":`...)
	add(m.Service)
	b = append(b, `,"additionalEndpoints":{`...)
	for i, protocol := range m.protocols() {
		if i > 0 {
			b = append(b, ',')
		}
		add(protocol)
		b = append(b, ':')
		add(m.Additional[protocol])
	}
	b = append(b, `},"status":`...)
	add(m.Status)
	return append(b, '}'), err
}

// protocols returns the names of the endpoints: those of Kestrel first, in the original's order.
func (m *Member) protocols() []string {
	known := []string{Memcache, Thrift, Text}
	place := func(protocol string) int {
		if i := slices.Index(known, protocol); i >= 0 {
			return i
		}
		return len(known)
	}
	return slices.SortedFunc(maps.Keys(m.Additional), func(a, b string) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

// ParseMember reads the data of a node, JSON or the Thrift structure of older libraries. It keeps
// nothing of data.
func ParseMember(data []byte) (Member, error) {
	switch {
	case len(data) > maxMember:
		return Member{}, fmt.Errorf("member of %d bytes: more than %d are not read", len(data), maxMember)
	case len(data) >= 2 && string(data[:2]) == `{"`:
		return parseJSON(data)
	}
	return parseThrift(data)
}

func parseJSON(data []byte) (Member, error) {
	var parsed struct {
		ServiceEndpoint     Endpoint            `json:"serviceEndpoint"`
		AdditionalEndpoints map[string]Endpoint `json:"additionalEndpoints"`
		Status              string              `json:"status"`
	}
	if err := json.Unmarshal(data, &parsed); err != nil {
		return Member{}, fmt.Errorf("member is not the JSON of a server set: %w", err)
	}
	m := Member{parsed.ServiceEndpoint, parsed.AdditionalEndpoints, parsed.Status}
	if !m.Service.valid() {
		return Member{}, fmt.Errorf("member has no usable service endpoint: host %q, port %d",
			m.Service.Host, m.Service.Port)
	}
	return m, nil
}

// statuses are the numbers that stand for a status in Thrift.
var statuses = []string{"DEAD", "STARTING", "ALIVE", "STOPPING", "STOPPED", "WARNING"}

// Types of Thrift's binary protocol that occur here.
const (
	thriftStop   = 0
	thriftI32    = 8
	thriftString = 11
	thriftStruct = 12
	thriftMap    = 13
)

// parseThrift reads ServiceInstance in Thrift's binary protocol:
//
//	1: Endpoint serviceEndpoint {1: string host, 2: i32 port}
//	2: map<string, Endpoint> additionalEndpoints
//	3: i32 status
//	4: optional i32 shard
func parseThrift(data []byte) (m Member, err error) {
	r := thriftReader{data: data}
	for r.err == nil {
		kind, field := r.field()
		switch {
		case kind == thriftStop:
			if r.err == nil && !m.Service.valid() {
				return Member{}, errors.New("member has no usable service endpoint")
			}
			return m, r.err
		case field == 1 && kind == thriftStruct:
			m.Service = r.endpoint()
		case field == 2 && kind == thriftMap:
			m.Additional = r.endpoints()
		case field == 3 && kind == thriftI32:
			if n := r.int32(); n >= 0 && int(n) < len(statuses) {
				m.Status = statuses[n]
			}
		case kind == thriftI32:
			r.int32()
		case kind == thriftString:
			r.text()
		default:
			r.fail("a field of type %d", kind)
		}
	}
	return Member{}, r.err
}

// thriftReader reads what it is asked for, until something is not there.
type thriftReader struct {
	data []byte // what is left
	err  error
}

func (r *thriftReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("member is neither the JSON nor the Thrift structure of a server set: "+format, args...)
	}
}

// take returns the next n bytes, or n zero bytes if there are fewer; n is small then.
func (r *thriftReader) take(n int) []byte {
	if n < 0 || n > len(r.data) {
		r.fail("it ends in the middle of a field")
		r.data = nil
		return make([]byte, 8)
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *thriftReader) int32() int32 { return int32(binary.BigEndian.Uint32(r.take(4))) }

func (r *thriftReader) text() string {
	b := r.take(int(r.int32()))
	if r.err != nil {
		return ""
	}
	return string(b)
}

func (r *thriftReader) field() (kind byte, id int16) {
	if kind = r.take(1)[0]; kind == thriftStop || r.err != nil {
		return thriftStop, 0
	}
	return kind, int16(binary.BigEndian.Uint16(r.take(2)))
}

func (r *thriftReader) endpoint() (e Endpoint) {
	for r.err == nil {
		switch kind, field := r.field(); {
		case kind == thriftStop:
			return e
		case field == 1 && kind == thriftString:
			e.Host = r.text()
		case field == 2 && kind == thriftI32:
			e.Port = int(r.int32())
		default:
			r.fail("field %d of an endpoint has type %d", field, kind)
		}
	}
	return e
}

func (r *thriftReader) endpoints() map[string]Endpoint {
	key, value := r.take(1)[0], r.take(1)[0]
	n := r.int32()
	if key != thriftString || value != thriftStruct || n < 0 {
		r.fail("the additional endpoints are a map of types %d and %d", key, value)
	}
	m := make(map[string]Endpoint)
	for range n {
		name := r.text()
		e := r.endpoint()
		if r.err != nil {
			return nil
		}
		m[name] = e
	}
	return m
}
