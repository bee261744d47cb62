package netloop

import (
	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// largeCall is how many bytes a frame has at most that a loop decodes itself: at their worst, that is a
// list of empty values, they take it about a millisecond. A larger one does not fit in what is read at
// once, so the session holds it.
const largeCall = 4 * readSize

// thriftDecodeLater has a job decode a large frame, which lies in the input, and then runs the call. A put
// is done by the same job, also if the client goes away meanwhile.
func (s *session) thriftDecodeLater(frame []byte) {
	d, req, now, e := s.thriftDecoder(), new(thrift.Request), s.loop.now, s.loop.engine
	put := s.newPutJob()
	var refused error
	puts := false
	s.pinned = true
	s.startJob(func() error {
		_, refused = d.Decode(frame, req)
		if puts = refused == nil && req.Method == thrift.MethodPut; !puts {
			return nil
		}
		put.client = string(req.ClientID)
		if s.writesBlocked() {
			return errSetUnavailable
		}
		if e.MemoryLeft() < int64(len(frame)) {
			return engine.ErrOutOfMemory
		}
		return put.run(req.Queue, itemsOfPut(req, now))
	}, func(s *session, err error) {
		if !puts {
			s.thriftRun(frame, req, refused)
			return
		}
		s.thrift.call, s.clientID = req.Call, put.client
		put.end()
		s.endThriftPut(put.stored, put.ticket, err)
	})
}
