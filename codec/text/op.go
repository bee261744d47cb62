package text

// Op is the command of a [Request]. The zero Op is no command.
type Op uint8

// The commands, with the fields of [Request] each of them sets. Any may have ItemsFollow.
const (
	// put: Queue, ExpiryMillis, HasExpiry, HasDelay, DelayMillis, Key, New, Replace; without items it puts nothing
	OpPut      Op = iota + 1
	OpGet         // get: Queue, WaitMillis, HasLease, LeaseMillis, Several, Meta
	OpPeek        // peek: Queue, WaitMillis, Several, or ID or Key; Meta
	OpMonitor     // monitor: Queue, WaitMillis
	OpConfirm     // confirm: Queue, Count or Receipt
	OpFlush       // flush: Queue
	OpDelete      // delete: Queue
	OpStatus      // status: Status
	OpVersion     // version
	OpShutdown    // shutdown
	OpQuit        // quit
	OpTouch       // touch: Queue, Receipt, LeaseMillis; or ID or Key, TouchMillis
	OpAbort       // abort: Queue, Receipt, HasDelay, DelayMillis
	OpRelease     // release: likewise
	OpReject      // reject: Queue, Receipt
	OpAuth        // auth: User, Password
	OpList        // list: Queue, From, Limit, Hidden, Meta
	OpRemove      // remove: Queue, ID or Key
)

// opNames holds the spelling sent by the encoders.
var opNames = [...]string{
	OpPut:      "put",
	OpGet:      "get",
	OpPeek:     "peek",
	OpMonitor:  "monitor",
	OpConfirm:  "confirm",
	OpFlush:    "flush",
	OpDelete:   "delete",
	OpStatus:   "status",
	OpVersion:  "version",
	OpShutdown: "shutdown",
	OpQuit:     "quit",
	OpTouch:    "touch",
	OpAbort:    "abort",
	OpRelease:  "release",
	OpReject:   "reject",
	OpAuth:     "auth",
	OpList:     "list",
	OpRemove:   "remove",
}

// String returns the command word in lower case, or "unknown".
func (op Op) String() string {
	if op == 0 || int(op) >= len(opNames) {
		return "unknown"
	}
	return opNames[op]
}

const maxCommandLen = len("shutdown") // bytes

// lookupOp returns the command a word stands for, in any case, or 0 for an unknown one.
func lookupOp(word []byte) Op {
	if len(word) > maxCommandLen {
		return 0
	}
	var buf [maxCommandLen]byte
	lower := buf[:len(word)]
	for i, c := range word {
		lower[i] = lowerCase(c)
	}
	switch string(lower) {
	case "put":
		return OpPut
	case "get":
		return OpGet
	case "peek":
		return OpPeek
	case "monitor":
		return OpMonitor
	case "confirm":
		return OpConfirm
	case "flush":
		return OpFlush
	case "delete":
		return OpDelete
	case "status":
		return OpStatus
	case "version":
		return OpVersion
	case "shutdown":
		return OpShutdown
	case "quit":
		return OpQuit
	case "touch":
		return OpTouch
	case "abort":
		return OpAbort
	case "release":
		return OpRelease
	case "reject":
		return OpReject
	case "auth":
		return OpAuth
	case "list":
		return OpList
	case "remove":
		return OpRemove
	}
	return 0
}

// lowerCase returns an ASCII letter in lower case, and any other byte as it is.
func lowerCase(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c |= 0x20
	}
	return c
}
