package testserver

import (
	"errors"
	"net"
	"testing"

	codec "github.com/kestrelmq/kestrel/codec/thrift"
)

// NewThrift starts a server of Kestrel's Thrift service that the test's end stops. A forgetful one
// has a get put back what its connection has open: that stands for a clock that aborts reads.
func NewThrift(t testing.TB, forgetful bool) *Server {
	t.Helper()
	s := &Server{forgetful: forgetful}
	s.answer = s.serveThrift
	s.start(t)
	return s
}

func (s *Server) serveThrift(c net.Conn) {
	var in []byte
	var d codec.Decoder
	buf := make([]byte, 1<<16)
	for {
		var req codec.Request
		n, err := d.Decode(in, &req)
		if err == nil {
			if _, err := c.Write(s.call(c, &req)); err != nil {
				return
			}
			in = in[n:]
			d.Upgraded = d.Upgraded || req.Method == codec.MethodUpgrade
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

func (s *Server) call(c net.Conn, req *codec.Request) []byte {
	queue := string(req.Queue)
	switch req.Method {
	case codec.MethodUpgrade:
		return codec.AppendUpgrade(nil, req.Call)
	case codec.MethodGetVersion:
		return codec.AppendVersion(nil, req.Call, "test")
	case codec.MethodFlushQueue:
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.queues, queue)
		return codec.AppendVoid(nil, req.Call)
	case codec.MethodPeek:
		s.mu.Lock()
		defer s.mu.Unlock()
		return codec.AppendQueueInfo(nil, req.Call, &codec.QueueInfo{Items: int64(len(s.queues[queue]))})
	case codec.MethodPut:
		count := req.Items.Len()
		for item := range req.Items.All() {
			s.Put(queue, string(item))
		}
		return codec.AppendCount(nil, req.Call, int32(count))
	case codec.MethodConfirm:
		return codec.AppendCount(nil, req.Call, s.confirm(req))
	}
	s.abort(c)
	dst, count := codec.BeginItems(nil, req.Call), 0
	for range req.MaxItems {
		item, ok := s.Take(queue)
		if !ok {
			break
		}
		dst = codec.AppendItem(dst, &codec.Item{Data: []byte(item), ID: s.opened(c, queue, item, req.AutoAbortMillis)})
		count++
	}
	return codec.EndItems(dst, 0, count)
}

// opened returns the id of an item that is delivered.
func (s *Server) opened(c net.Conn, queue, item string, autoAbort int32) int64 {
	if autoAbort <= 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	s.open[s.lastID] = openItem{queue, item, c}
	return s.lastID
}

func (s *Server) confirm(req *codec.Request) (count int32) {
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
func (s *Server) abort(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, item := range s.open {
		if s.forgetful && item.conn == c {
			s.queues[item.queue] = append(s.queues[item.queue], item.data)
			delete(s.open, id)
		}
	}
}
