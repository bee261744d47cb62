package text

import "math"

// parseArgs fills req from the words after its command. It returns nil or why the request is
// refused. Numbers are checked before a request is run, so a bad one confirms and stores nothing.
func parseArgs(args []byte, req *Request) *ProtocolError {
	switch req.Op {
	case OpPut:
		return parsePut(args, req)
	case OpGet, OpPeek:
		return parseFetch(args, req)
	case OpMonitor:
		return parseMonitor(args, req)
	case OpConfirm:
		return parseConfirm(args, req)
	case OpTouch:
		return parseTouch(args, req)
	case OpList:
		return parseList(args, req)
	case OpRemove:
		return parseWhich(args, req)
	case OpAbort, OpRelease, OpReject:
		if len(args) == 0 {
			return errNoQueue
		}
		req.Queue, args = cutWord(args)
		return parseOptions(args, req)
	case OpAuth:
		req.User, args = cutWord(args)
		req.Password, args = cutWord(args)
		if len(req.User) == 0 || len(req.Password) == 0 || len(args) > 0 {
			return errAuth
		}
	case OpFlush, OpDelete:
		if len(args) == 0 {
			return errNoQueue
		}
		req.Queue, _ = cutWord(args)
	case OpStatus:
		req.Status, _ = cutWord(args)
		if len(req.Status) == 0 && len(args) > 0 {
			return errStatusName
		}
	}
	return nil
}

// parsePut parses `<queue> [<expiry milliseconds>] [delay=<ms>] [key=<key> [new | replace]]`.
func parsePut(args []byte, req *Request) *ProtocolError {
	if len(args) == 0 {
		return errNoQueue
	}
	req.Queue, args = cutWord(args)
	if len(args) == 0 {
		return nil
	}
	switch string(optionName(args)) {
	case "delay", "key", "new", "replace":
	default:
		var expiry []byte
		expiry, args = cutWord(args)
		if req.ExpiryMillis, req.HasExpiry = parseInt32(expiry); !req.HasExpiry {
			return errExpiry
		}
	}
	if len(args) == 0 {
		return nil
	}
	refused := parseOptions(args, req)
	if refused == nil && (req.New || req.Replace) && (len(req.Key) == 0 || req.New && req.Replace) {
		refused = errNeedsKey
	}
	return refused
}

// parseFetch parses `<queue> [<milliseconds>] [lease[=<ms>]] [weight=<n>] [or=<queue>]... [meta]`, the lease in a
// GET only, or `<queue> id=<id>` and `<queue> key=<key>`, in a PEEK only. The options stand in any order.
func parseFetch(args []byte, req *Request) *ProtocolError {
	if len(args) == 0 {
		return errNoQueue
	}
	req.Queue, args = cutWord(args)
	if len(args) == 0 {
		return nil
	}
	waits := true // a number comes first
	switch string(optionName(args)) {
	case "id", "key":
		waits = req.Op != OpPeek
	case "or", "weight", "meta":
		waits = false
	case "lease":
		waits = req.Op != OpGet
	}
	if waits {
		var ok bool
		var wait []byte
		wait, args = cutWord(args)
		if req.WaitMillis, ok = parseInt32(wait); !ok {
			return errWait
		}
	}
	if len(args) == 0 {
		return nil
	}
	refused := parseOptions(args, req)
	if refused == nil && req.ID != 0 && len(req.Key) > 0 {
		refused = errWhich
	}
	return refused
}

// parseMonitor parses `<queue> <milliseconds>`.
func parseMonitor(args []byte, req *Request) *ProtocolError {
	req.Queue, args = cutWord(args)
	if len(args) == 0 {
		return errMonitorWords
	}
	var ok bool
	wait, _ := cutWord(args)
	if req.WaitMillis, ok = parseInt32(wait); !ok {
		return errMonitorNumber
	}
	return nil
}

// parseConfirm parses `<queue> <count>` or `<queue> receipt=<receipt>`.
func parseConfirm(args []byte, req *Request) *ProtocolError {
	req.Queue, args = cutWord(args)
	if len(args) == 0 {
		return errConfirmWords
	}
	if isOption(args, "receipt") {
		word, _ := cutWord(args)
		_, value, _ := cutOption(word)
		return parseReceipt(value, req)
	}
	var ok bool
	count, _ := cutWord(args)
	if req.Count, ok = parseInt32(count); !ok {
		return errConfirmNumber
	}
	return nil
}

// parseInt32 returns the number a whole word stands for: an optional sign and at least one digit.
// It returns 0 and false for any other word.
func parseInt32(word []byte) (value int32, ok bool) {
	const beyond32 = 1 << 33 // where counting stops: out of range, far from overflowing
	digits := word
	if len(word) > 0 && (word[0] == '-' || word[0] == '+') {
		digits = word[1:]
	}
	var v int64
	for _, c := range digits {
		digit := c - '0'
		if digit > 9 {
			return 0, false
		}
		v = min(v*10+int64(digit), beyond32)
	}
	if len(digits) == 0 {
		return 0, false
	}
	if word[0] == '-' {
		v = -v
	}
	if v < math.MinInt32 || v > math.MaxInt32 {
		return 0, false
	}
	return int32(v), true
}
