package thrift

// Call is what a reply repeats of the call that it answers. It holds no slices, so it may be kept
// while a call waits.
type Call struct {
	Method   Method
	Seq      int32 // sequence id
	Upgraded bool  // replies on this connection have a header
}

// Request is one decoded call. Decode overwrites all of it, so one Request serves a whole
// connection. The slices alias the bytes given to Decode. Which fields a method sets is said at its
// [Method]; those the client left out, and the others, are zero.
type Request struct {
	Call

	Name     []byte // of the method, as sent
	ClientID []byte // who calls, from the request header; nil if that does not say

	User     []byte // AUTHENTICATE: name of the user
	Password []byte // AUTHENTICATE

	Queue []byte // name, UTF-8; may be empty
	Items Items  // PUT: the items' bytes
	IDs   IDs    // CONFIRM, ABORT, RELEASE, REJECT: ids of open reads
	ID    int64  // TOUCH: of an open read
	Which Which  // BROWSE, REMOVE, TOUCH: one item; the zero Which: none is named

	Keys    Items   // PUT: keys of the items, as many, or none
	Queues  Items   // GET_ANY: names, UTF-8
	Weights Weights // GET_ANY: of the queues

	ExpiryMillis    int32  // PUT: milliseconds the items live; TOUCH: the item; ExpiryTime says what it means
	DelayMillis     int64  // PUT, ABORT, RELEASE: milliseconds the items are hidden; as sent, or NoDelay in ABORT
	MaxItems        int32  // GET: items at most; 0: none; negative: no limit
	WaitMillis      int32  // GET, GET_ANY: how long to collect items; negative: nothing at all is returned
	AutoAbortMillis int32  // GET, GET_ANY, TOUCH: above 0 the reads stay open this long, unless confirmed
	Status          Status // SET_STATUS: StatusQuiescent, StatusReadOnly or StatusUp
	OnDuplicate     int32  // PUT: what to do about keys that items have, or none has; as sent
	From            int64  // BROWSE: list items from this id on
	Limit           int32  // BROWSE: items at most, as sent; 0: none was sent
	Hidden          bool   // BROWSE: list also what is delayed or leased

	// Need is set on ErrIncomplete once the length of the frame is known: the bytes needed in all,
	// from the start of src. It is 0 before.
	Need int
}

// NoDelay, as the DelayMillis of ABORT, says that the client asks for no delay of its own. So do other
// negative numbers.
const NoDelay = -1

// Which names one item of a queue: by its key, unless that is empty, or by its id, unless that is 0. Some clients
// send both in any case.
type Which struct {
	ID  int64
	Key []byte
}

// IsZero reports whether no item is named.
func (w Which) IsZero() bool { return w.ID == 0 && len(w.Key) == 0 }

// The values of Request.OnDuplicate.
const (
	OnDuplicateOverwrite = iota
	OnDuplicateOnlyNew
	OnDuplicateOnlyReplace
)

// Status is a server status, as a call names it.
type Status int32

// The values of Status. All other server statuses are reported as StatusNotConfigured, which cannot
// be set.
const (
	StatusNotConfigured Status = iota
	StatusQuiescent
	StatusReadOnly
	StatusUp
)

// ExpiryTime returns the instant an expiry of PUT stands for, in milliseconds since 1970; 0 means
// never. An expiry of 0 is never, any other counts from nowMillis; negative ones are past already.
// An instant at or before the start of 1970 comes back as 1, which is as expired and cannot be
// mistaken for never.
func ExpiryTime(expiryMillis int32, nowMillis int64) int64 {
	if expiryMillis == 0 {
		return 0
	}
	return max(nowMillis+int64(expiryMillis), 1)
}
