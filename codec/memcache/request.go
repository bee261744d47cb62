package memcache

// Request is one decoded request. Decode clears what an earlier Decode has set, so one Request serves a whole
// connection. A Request that a caller has filled in is not one to decode into. The slices alias the bytes given to
// Decode. Which fields a command sets is said at its [Op]; the others are zero.
type Request struct {
	// What a GET or SET without rare options sets stands first; see clear.

	Op Op

	Open  bool // GET /open
	Close bool // GET /close
	Peek  bool // GET /peek
	CAS   bool // GETS

	// NoReply says that the last word of a SET, DELETE or FLUSH_ALL line, not counting words the
	// command itself uses, was noreply. memcached then stays silent; Kestrel answered all the
	// same. The choice is the caller's.
	NoReply bool

	// BadEnd says that the two bytes behind a SET's data are not the line end they should be.
	// Kestrel did not look at them. But the client has sent more, or less, than it announced. So what follows may not
	// be a request.
	BadEnd bool

	plain bool // see HasPlainName

	Flags      uint32 // SET: a negative value is kept as its 32 bits
	WaitMillis int32  // GET t=: longest wait in milliseconds; 0 or negative: do not wait
	Expiry     int64  // SET: as sent; ExpiryTime says what it means

	// Need is set on ErrIncomplete once the length of the request is known: the bytes needed in
	// all, from the start of src. It is 0 while the line end is missing.
	Need int

	// Skip is set on ErrTooLarge: the bytes that follow the consumed ones and must be discarded.
	Skip int64

	Queue []byte // name as sent, ISO-8859-1, without GET options; empty if sent empty
	Key   []byte // GET: name and options, as sent
	Data  []byte // SET: the item's bytes

	more     bool  // what stands below may not be zero
	extended bool  // a GET has an option that Kestrel did not have, or gave no value; it may be one that nobody knows
	others   uint8 // queues after the first
	weighted bool  // the queue named last has a weight

	// Args holds the words after the command, separated by single spaces. For STATUS that is the one word that names
	// the new status, for DUMP_STATS and DUMP_CONFIG the queue names, to be read with Words. Empty if there were none.
	Args []byte

	// Seconds is the longest wait of a MONITOR; 0 and less mean: do not wait. For a TOUCH of a lease it is how long the
	// lease lasts from now on, above 0. For a TOUCH of an item it is the expiry, from 0 on; ExpiryTime says what that
	// means.
	Seconds  int32
	MaxItems int32 // MONITOR: items to deliver at most if HasMaxItems; negative: no limit
	Count    int32 // CONFIRM: reads to confirm; 0 and negative are passed on

	HasMaxItems bool // MONITOR: MaxItems was sent

	Abort    bool // GET /abort
	HasLease bool // GET /lease
	Release  bool // GET /release
	Reject   bool // GET /reject
	Meta     bool // GET /meta
	HasDelay bool // SET, GET /delay

	LeaseMillis int64 // GET /lease: milliseconds; 0: what the queue's options say
	DelayMillis int64 // SET, GET /delay: milliseconds, from 0 on
	// Receipt is that of a lease to be closed, aborted, released, rejected, touched or deleted. It is 0 if none was
	// sent. Then a GET or TOUCH is about the oldest open read of the connection, and a DELETE about the queue.
	Receipt uint64

	// Several is, of a GET that names more than one queue, or a weight, its options; Queues reads them.
	Several []byte

	// ItemKey is the key of an item, or empty. The item of a SET gets it; a GET, DELETE or TOUCH is about the item that
	// has it. It is valid.
	ItemKey []byte
	New     bool   // SET /new
	Replace bool   // SET /replace
	ID      uint64 // GET, DELETE, TOUCH id=: the item that it is about; 0: none
	List    bool   // GET from=: list items
	From    uint64 // GET from=: ids from here on
	Limit   int    // GET limit=: items at most; 0: not sent
	Hidden  bool   // GET /hidden: those too that are delayed or leased
}

// HasPlainName reports whether Queue is ASCII and has no slash. It may report false of such a name.
func (req *Request) HasPlainName() bool { return req.plain }

// HasRareOptions reports whether a GET may have other options than open, close, peek and t.
func (req *Request) HasRareOptions() bool { return req.extended }

// clear makes req zero, if only Decode has changed it.
func (req *Request) clear() {
	if req.more {
		*req = Request{}
		return
	}
	req.Op, req.Open, req.Close, req.Peek, req.CAS = 0, false, false, false, false
	req.NoReply, req.BadEnd, req.plain = false, false, false
	req.Flags, req.WaitMillis, req.Expiry, req.Need, req.Skip = 0, 0, 0, 0, 0
	req.Queue, req.Key, req.Data = nil, nil, nil
}
