package text

// Request is one decoded request line. Decode overwrites all of it, so one Request serves a whole
// connection. The slices alias the bytes given to Decode. Which fields a command sets is said at
// its [Op]; the others are zero.
type Request struct {
	Op Op

	Queue    []byte // name as sent, ISO-8859-1; empty if sent empty
	Status   []byte // STATUS: the name of the new status as sent; empty asks for the current one
	User     []byte // AUTH: name of the user
	Password []byte // AUTH

	Word []byte // unknown command: the command as sent, which may be empty

	ExpiryMillis int32 // PUT: milliseconds an item lives, if HasExpiry; see ExpiryTime
	WaitMillis   int32 // GET, PEEK, MONITOR: longest wait in milliseconds; 0 or less: none
	Count        int32 // CONFIRM: reads to confirm; 0 and negative are passed on

	HasExpiry bool // PUT: ExpiryMillis was sent

	HasDelay    bool   // PUT, ABORT, RELEASE: DelayMillis was sent
	DelayMillis int64  // PUT, ABORT, RELEASE: how long the items are hidden, from 0 on
	HasLease    bool   // GET: with a lease
	LeaseMillis int64  // GET: how long it is, 0 for what the queue's options say; TOUCH: from now on, above 0
	Receipt     uint64 // CONFIRM, TOUCH, ABORT, RELEASE, REJECT: of a lease; 0 if none was sent

	// Several is, of a GET or PEEK that names more than one queue, or a weight, its options; Queues reads them.
	Several  []byte
	others   uint8 // queues after the first
	weighted bool  // the queue named last has a weight

	Key     []byte // PUT: of the items, each of which takes the place of the one before; PEEK, TOUCH, REMOVE: of the item
	New     bool   // PUT: only if no item has the key
	Replace bool   // PUT: only if one has
	ID      uint64 // PEEK, TOUCH, REMOVE: of the item; 0: none
	From    uint64 // LIST: ids from here on
	Limit   int    // LIST: items at most; 0: not sent
	Hidden  bool   // LIST: those too that are delayed or leased
	Meta    bool   // GET, PEEK, LIST: what there is to know of an item stands in front of it
	// TouchMillis is, of a TOUCH of an item, after how many milliseconds it expires; 0: never.
	TouchMillis int64

	// ItemsFollow says that the line ended in a colon, which makes item lines follow after any
	// command, refused ones included. They are to be read with DecodeItem before the next request,
	// and matter to PUT only.
	ItemsFollow bool
}

// ExpiryTime returns when the items of a PUT expire, in milliseconds since 1970, if it is run at
// nowMillis; 0 means never. Unlike in the other protocols only a PUT that names no expiry is for
// ever: one of 0 is over at once. An instant at or before the start of 1970 comes back as 1, which
// is as expired and cannot be mistaken for never.
func (req *Request) ExpiryTime(nowMillis int64) int64 {
	if !req.HasExpiry {
		return 0
	}
	return max(nowMillis+int64(req.ExpiryMillis), 1)
}
