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

	Queue []byte // name, UTF-8; may be empty
	Items Items  // PUT: the items' bytes
	IDs   IDs    // CONFIRM, ABORT: ids of open reads

	ExpiryMillis    int32  // PUT: milliseconds the items live; ExpiryTime says what it means
	DelayMillis     int64  // PUT: milliseconds the items are hidden; 0: none; negative as sent
	MaxItems        int32  // GET: items at most; 0: none; negative: no limit
	WaitMillis      int32  // GET: how long to collect items; negative: nothing at all is returned
	AutoAbortMillis int32  // GET: above 0 the reads stay open this long, unless confirmed
	Status          Status // SET_STATUS: StatusQuiescent, StatusReadOnly or StatusUp

	// Need is set on ErrIncomplete once the length of the frame is known: the bytes needed in all,
	// from the start of src. It is 0 before.
	Need int
}

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
