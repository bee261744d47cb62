package loadtest

import (
	"errors"
	"net"
	"testing"

	codec "github.com/kestrelmq/kestrel/codec/thrift"
)

// newFakeThriftServer starts a server of Kestrel's Thrift service that the test's end stops. It has
// no clock: with forgetful set, an open read is put back when its connection gets again.
func newFakeThriftServer(t *testing.T) *fakeServer {
	t.Helper()
	s := new(fakeServer)
	s.answer = s.serveThrift
	s.start(t)
	return s
}

func (s *fakeServer) serveThrift(c net.Conn) {
	var in []byte
	buf := make([]byte, 1<<16)
	for {
		var req codec.Request
		n, err := codec.Decoder{}.Decode(in, &req)
		if err == nil {
			if _, err := c.Write(s.call(c, &req)); err != nil {
				return
			}
			in = in[n:]
			continue
		}
		if !errors.Is(err, codec.ErrIncomplete) {
			return
		}
		got, err := c.Read(buf)
		if err != nil {
			return
		}
		in = append(in, buf[:got]...)
	}
}

func (s *fakeServer) call(c net.Conn, req *codec.Request) []byte {
	queue := string(req.Queue)
	switch req.Method {
	case codec.MethodPut:
		count := req.Items.Len()
		for item := range req.Items.All() {
			s.put(queue, string(item))
		}
		return codec.AppendCount(nil, req.Call, int32(count))
	case codec.MethodConfirm:
		return codec.AppendCount(nil, req.Call, s.confirm(req))
	}
	s.abort(c)
	dst, count := codec.BeginItems(nil, req.Call), 0
	for range req.MaxItems {
		item, ok := s.take(queue)
		if !ok {
			break
		}
		dst = codec.AppendItem(dst, []byte(item), s.opened(c, queue, item, req.AutoAbortMillis))
		count++
	}
	return codec.EndItems(dst, 0, count)
}

// opened returns the id of an item that is delivered.
func (s *fakeServer) opened(c net.Conn, queue, item string, autoAbort int32) int64 {
	if autoAbort <= 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	s.open[s.lastID] = openItem{queue, item, c}
	return s.lastID
}

func (s *fakeServer) confirm(req *codec.Request) (count int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range req.IDs.All() {
		if _, ok := s.open[id]; ok {
			delete(s.open, id)
			count++
		}
	}
	return count
}

// abort puts back the reads that a connection has open, if the server is forgetful.
func (s *fakeServer) abort(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, item := range s.open {
		if s.forgetful && item.conn == c {
			s.queues[item.queue] = append(s.queues[item.queue], item.data)
			delete(s.open, id)
		}
	}
}
