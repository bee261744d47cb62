package loadtest

import "time"

// requestKind is one step of an operation's cycle.
type requestKind uint8

const (
	putRequest requestKind = iota
	getRequest
	openRequest    // get that leaves the item open
	confirmRequest // end of the open read
)

// cycles holds, for each operation, the kinds of request it repeats.
func (o Operation) cycle() []requestKind {
	return [...][]requestKind{
		Set:       {putRequest},
		Get:       {getRequest},
		SetGet:    {putRequest, getRequest},
		OpenClose: {putRequest, openRequest, confirmRequest},
	}[o]
}

// request is one request and what its reply must contain.
type request struct {
	kind  requestKind
	queue string
	value []byte // put: the item; confirm: the item that is open; otherwise the item due
}

// outcome classifies a reply.
type outcome uint8

const (
	accepted outcome = iota // put or confirm done
	hit                     // an item, in reply.value
	miss                    // get or open of an empty queue
	refused                 // an error, a reply to another kind of request, or not a reply at all
)

// reply is one parsed reply.
type reply struct {
	outcome outcome
	value   []byte // aliases the source; hit only
}

// protocol encodes requests and frames replies. It keeps no state and may be shared by threads.
type protocol interface {
	// appendRequest extends dst by the request.
	appendRequest(dst []byte, r request) []byte

	// appendReply extends dst by the reply due. It returns false if that is one of several that a
	// correct server may give; what it appended is then an example, for error messages.
	appendReply(dst []byte, r request) ([]byte, bool)

	// parseReply parses one reply at the start of src and returns the bytes it occupies. Zero means
	// that src is a proper prefix of a reply. The bytes of a refused reply may be fewer than it has.
	parseReply(src []byte, r request) (reply, int)
}

// newProtocol returns the codec of p, whose gets and opens ask the server to wait.
func newProtocol(p Protocol, wait time.Duration) protocol {
	switch p {
	case RedisList:
		return redisList{wait: wait}
	case RedisString:
		return redisString{}
	case MemcacheMeta:
		return memcacheMeta{}
	default:
		return memcache{wait: wait}
	}
}
