package memcache

import "encoding/binary"

// Op is the command of a [Request]. The zero Op is no command.
type Op uint8

// The commands, with the fields of [Request] each of them sets.
const (
	// GET, GETS: Queue, Open, Close, Abort, Peek, WaitMillis, CAS, HasLease, LeaseMillis, Release, Reject,
	// Receipt, HasDelay, DelayMillis, Meta, ID, ItemKey, List, From, Limit, Hidden
	OpGet Op = iota + 1
	// SET: Queue, Data, Flags, Expiry, NoReply, HasDelay, DelayMillis, ItemKey, New, Replace
	OpSet
	OpMonitor         // MONITOR: Queue, Seconds, MaxItems, HasMaxItems
	OpConfirm         // CONFIRM: Queue, Count
	OpDelete          // DELETE: Queue, NoReply, Receipt, ID, ItemKey
	OpFlush           // FLUSH: Queue
	OpFlushAll        // FLUSH_ALL: NoReply
	OpFlushExpired    // FLUSH_EXPIRED: Queue
	OpFlushAllExpired // FLUSH_ALL_EXPIRED
	OpStats           // STATS: Args
	OpDumpStats       // DUMP_STATS: Args
	OpDumpConfig      // DUMP_CONFIG: Args
	OpStatus          // STATUS: Args
	OpVersion         // VERSION
	OpReload          // RELOAD
	OpShutdown        // SHUTDOWN
	OpQuit            // QUIT
	OpTouch           // TOUCH: Queue, Receipt, Seconds, NoReply, ID, ItemKey

	opStore // add, replace, append, prepend, cas: framed like SET, then refused
)

// opNames holds the spelling sent by the encoders.
var opNames = [...]string{
	OpGet:             "get",
	OpSet:             "set",
	OpMonitor:         "monitor",
	OpConfirm:         "confirm",
	OpDelete:          "delete",
	OpFlush:           "flush",
	OpFlushAll:        "flush_all",
	OpFlushExpired:    "flush_expired",
	OpFlushAllExpired: "flush_all_expired",
	OpStats:           "stats",
	OpDumpStats:       "dump_stats",
	OpDumpConfig:      "dump_config",
	OpStatus:          "status",
	OpVersion:         "version",
	OpReload:          "reload",
	OpShutdown:        "shutdown",
	OpQuit:            "quit",
	OpTouch:           "touch",
}

// String returns the command word in lower case, or "unknown".
func (op Op) String() string {
	if op == 0 || int(op) >= len(opNames) {
		return "unknown"
	}
	return opNames[op]
}

// The commands of most requests with the space behind them, as the four bytes of a little-endian number.
const (
	wordGet = 'g' | 'e'<<8 | 't'<<16 | ' '<<24
	wordSet = 's' | 'e'<<8 | 't'<<16 | ' '<<24
)

const maxCommandLen = len("flush_all_expired") // bytes

// splitLine returns the command of a request line, or 0 for an unknown one, and the bytes after it
// and its space. A line is neither empty nor does it end in a space.
func splitLine(line []byte) (op Op, args []byte) {
	if len(line) > 4 {
		// Bit 5 makes upper case letters lower case, and makes no other byte a letter.
		switch binary.LittleEndian.Uint32(line) | 0x202020 {
		case wordGet:
			return OpGet, line[4:]
		case wordSet:
			return OpSet, line[4:]
		}
	}
	word, args := cutWord(line)
	return lookupOp(word), args
}

// lookupOp returns the command a word stands for, in any case, or 0 for an unknown one.
func lookupOp(word []byte) Op {
	if len(word) > maxCommandLen {
		return 0
	}
	var buf [maxCommandLen]byte
	lower := buf[:len(word)]
	for i, c := range word {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		lower[i] = c
	}
	switch string(lower) {
	case "get", "gets":
		return OpGet
	case "set":
		return OpSet
	case "monitor":
		return OpMonitor
	case "confirm":
		return OpConfirm
	case "delete":
		return OpDelete
	case "flush":
		return OpFlush
	case "flush_all":
		return OpFlushAll
	case "flush_expired":
		return OpFlushExpired
	case "flush_all_expired":
		return OpFlushAllExpired
	case "stats":
		return OpStats
	case "dump_stats":
		return OpDumpStats
	case "dump_config":
		return OpDumpConfig
	case "status":
		return OpStatus
	case "version":
		return OpVersion
	case "reload":
		return OpReload
	case "shutdown":
		return OpShutdown
	case "quit":
		return OpQuit
	case "touch":
		return OpTouch
	case "add", "replace", "append", "prepend", "cas":
		return opStore
	}
	return 0
}
