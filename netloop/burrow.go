package netloop

import (
	"bytes"
	"errors"

	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/engine"
)

// burrowProtocol is the HTTP protocol of Burrow: accounts, queues and messages. A message is an item; its id
// is the item's key. What a request matches it reads, changes or removes in place, and a wait is a long poll.
type burrowProtocol struct{ _ *byte }

// burrowOps runs a decoded request, by its Op.
var burrowOps = [...]func(*session){
	burrow.OpVersions:       burrowVersions,
	burrow.OpListAccounts:   burrowListAccounts,
	burrow.OpDeleteAccounts: burrowDeleteAccounts,
	burrow.OpListQueues:     burrowListQueues,
	burrow.OpDeleteQueues:   burrowDeleteQueues,
	burrow.OpGetMessages:    burrowMatch,
	burrow.OpUpdateMessages: burrowMatch,
	burrow.OpDeleteMessages: burrowMatch,
	burrow.OpGetMessage:     burrowGet,
	burrow.OpPutMessage:     burrowPut,
	burrow.OpUpdateMessage:  burrowUpdate,
	burrow.OpDeleteMessage:  burrowDelete,
	burrow.OpOpenAPI:        burrowOpenAPI,
	burrow.OpAccounts:       burrowAccounts,
	burrow.OpQueues:         burrowQueues,
	burrow.OpStats:          burrowQueueStats,
	burrow.OpDeleteQueue:    burrowDeleteQueue,
	burrow.OpBrowse:         burrowBrowse,
	burrow.OpPutBatch:       burrowPutBatch,
	burrow.OpLook:           burrowLook,
	burrow.OpRemove:         burrowRemove,
	burrow.OpReceive:        burrowReceive,
	burrow.OpSettle:         burrowAcknowledgeAll,
	burrow.OpExtend:         burrowExtend,
	burrow.OpAcknowledge:    burrowAcknowledge,
	burrow.OpRedrive:        burrowRedrive,
}

// name implements protocol.
func (burrowProtocol) name() string { return "burrow" }

func (burrowProtocol) next(s *session, in []byte) int {
	if s.burrow == nil {
		s.burrow = new(burrowState)
	}
	b := s.burrow
	decoder := burrow.Decoder{MaxBody: s.loop.server.opts.MaxItemSize}
	n, err := decoder.DecodeHead(in, &b.head)
	if err == nil {
		b.frame = burrow.Reply{
			Close: b.head.Close, KeepAlive: b.head.Old() && !b.head.Close, NoBody: b.head.NoBody,
		}
		if b.modern = b.head.IsModern(); b.modern {
			b.frame.Fields = modernFields
		}
		if taken, admitted := s.admitBurrow(n); !admitted {
			s.arrived()
			return taken
		}
		n, err = s.readBurrowBody(decoder, in, n)
	}
	if err == burrow.ErrIncomplete {
		s.awaitRest()
		return 0
	}
	s.arrived()
	if err != nil {
		s.noteRefused(err)
		refusal := err.(*burrow.ProtocolError)
		s.out = refusal.AppendReply(s.out, &burrow.Request{}, burrow.Reply{})
		s.quitMisled()
		return 0
	}
	b.reading, b.continued = false, false
	b.kept = b.kept[:0]
	b.frame.Close = b.head.Close
	body := in[n : n+b.bodySize]
	n = b.at
	err = b.head.Parse(&b.req)
	if err == nil && !b.modern && b.head.Form && b.head.Method == burrow.Post {
		err = b.req.ParseForm(body)
	}
	if err != nil {
		refusal := err.(*burrow.ProtocolError)
		if b.modern {
			b.frame.Allow = refusal.Allow(&b.req)
			s.refuse(err)
			return n
		}
		s.noteRefused(err)
		s.out = refusal.AppendReply(s.out, &b.req, b.frame)
		s.endBurrow()
		return n
	}
	b.name = engine.AppendAccountQueue(b.name[:0], b.req.Account, b.req.Queue)
	if err := s.burrowDenied(); err != nil {
		s.refuse(err)
		return n
	}
	s.asks(b.req.Op.String(), b.name)
	b.answer = s.loop.burrowAnswer
	b.answer.begin(s, body)
	s.admitAccount(n, (*session).runBurrow)
	return n
}

// runBurrow runs the request that was parsed, or refuses it because of err.
func (s *session) runBurrow(err error) {
	if err != nil {
		s.refuse(err)
		return
	}
	burrowOps[s.burrow.req.Op](s)
}

// readBurrowBody reads the body of the request whose head has n bytes, and returns n. Chunks come to lie one
// behind the other, where the body begins. Of a body that means nothing, and has a size, nothing is kept.
func (s *session) readBurrowBody(decoder burrow.Decoder, in []byte, n int) (int, error) {
	b := s.burrow
	h := &b.head
	used := h.Method == burrow.Put || h.Method == burrow.Post && (h.Form || b.modern)
	if !h.Chunked {
		b.at, b.bodySize = n, 0
		if !used {
			s.skip = h.Length
			h.Close = h.Close || h.Continue // does the client send it all the same? Nobody can tell
			return n, nil
		}
		if whole := n + int(h.Length); len(in) < whole {
			s.need = whole
			s.askForBody()
			return 0, burrow.ErrIncomplete
		}
		b.at, b.bodySize = n+int(h.Length), int(h.Length)
		return n, nil
	}
	if !b.reading {
		b.reading, b.body, b.at, b.bodySize = true, decoder.Body(h), n, 0
	}
	for {
		piece, used, err := b.body.Decode(in[b.at:])
		b.bodySize += copy(in[n+b.bodySize:], piece)
		b.at += used
		switch {
		case err == burrow.ErrEndOfBody:
			return n, nil
		case err == burrow.ErrIncomplete:
			s.askForBody()
			return 0, err
		case err != nil:
			return 0, err
		}
	}
}

// askForBody tells a client that waits for it to send the body.
func (s *session) askForBody() {
	if b := s.burrow; b.head.Continue && !b.continued {
		b.continued = true
		s.out = append(s.out, burrow.ReplyContinue...)
	}
}

// largest allows for chunks of a few bytes each, whose frames are kept until the body is whole.
func (burrowProtocol) largest(o *Options) int { return burrow.DefaultMaxHead + 2*o.MaxItemSize }

func (burrowProtocol) extent(s *session, in []byte) int {
	var h burrow.Head
	n, err := burrow.Decoder{MaxBody: s.loop.server.opts.MaxItemSize}.DecodeHead(in, &h)
	switch {
	case err == burrow.ErrIncomplete:
		return burrow.DefaultMaxHead
	case err != nil || h.Chunked:
		return 0
	}
	return n + int(h.Length)
}

func (burrowProtocol) tooMany() []byte {
	const reason = "Too many open connections."
	return append(burrow.AppendReply(nil, burrow.Reply{
		Status: 503, Type: burrow.Octets, Length: len(reason), Close: true,
	}), reason...)
}

// item takes an item that a wait has brought.
func (burrowProtocol) item(s *session, it engine.Item) bool { return s.burrow.answer.Receive(it) }

// none says what is missing.
func (burrowProtocol) none(s *session) {
	if s.burrow.modern {
		s.burrowBody(burrow.JSON, []byte(modernList+"]}"))
		return
	}
	s.burrowText(404, s.whatIsMissing())
}

func (burrowProtocol) refuse(s *session, err error) {
	if s.burrow == nil {
		s.burrow = new(burrowState)
	}
	var over *overAccountError
	if errors.As(err, &over) {
		s.refuseAccount(over)
		return
	}
	status, text := burrowRefusal(err)
	if errors.Is(err, errTooMuchInput) || errors.Is(err, errNoBuffers) {
		s.burrow.frame.Close = true
	}
	s.burrowText(status, text)
}

func (burrowProtocol) retract(dst, reply []byte, err error) []byte {
	status, text := burrowRefusal(err)
	frame := burrow.Reply{Status: status, Type: burrow.Octets, Length: len(text)}
	if bytes.Contains(reply, []byte("\r\n"+modernFields)) {
		text = string(burrow.AppendProblem(nil, status, text))
		frame.Type, frame.Length, frame.Fields = burrow.Problem, len(text), modernFields
	}
	return append(burrow.AppendReply(dst, frame), text...)
}
