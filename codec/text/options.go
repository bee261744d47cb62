package text

import (
	"bytes"
	"math"
)

// Options are words behind the queue, and behind the number that Kestrel had there. An option with a bad value
// is refused. Other words are ignored behind what Kestrel knew, and refused behind commands that it did not.

const (
	maxMillis = 999_999_999_999 // of a lease or delay: about 31 years
	maxKey    = 250             // bytes of a key
	maxLimit  = 10_000          // items of a list
)

// cutOption splits a word at its first equals sign.
func cutOption(word []byte) (name, value []byte, hasValue bool) {
	if i := bytes.IndexByte(word, '='); i >= 0 {
		return word[:i], word[i+1:], true
	}
	return word, nil, false
}

// isOption reports whether the first of args is an option of that name.
func isOption(args []byte, name string) bool { return string(optionName(args)) == name }

// optionName returns what the first of args is called if it is an option. No name begins as a number does.
func optionName(args []byte) []byte {
	if len(args) == 0 || args[0] < 'a' {
		return nil
	}
	word, _ := cutWord(args)
	name, _, _ := cutOption(word)
	return name
}

// parseOptions parses the words in args that are options of the command.
func parseOptions(args []byte, req *Request) *ProtocolError {
	var word []byte
	all := args
	for len(args) > 0 {
		word, args = cutWord(args)
		name, value, hasValue := cutOption(word)
		var refused *ProtocolError
		switch string(name) {
		case "lease":
			if req.Op != OpGet {
				refused = unknownOption(req.Op)
				break
			}
			refused = parseLease(value, hasValue, req)
		case "delay":
			if req.Op != OpPut && req.Op != OpAbort && req.Op != OpRelease {
				refused = unknownOption(req.Op)
				break
			}
			refused = parseDelay(value, req)
		case "or", "weight":
			if req.Op != OpGet && req.Op != OpPeek {
				refused = unknownOption(req.Op)
				break
			}
			req.Several = all
			refused = parseSource(name, value, req)
		case "receipt":
			if req.Op < OpTouch {
				break
			}
			if req.Op >= OpList {
				refused = errOption
				break
			}
			refused = parseReceipt(value, req)
		case "meta":
			refused = parseMeta(hasValue, req)
		case "key", "new", "replace", "id", "from", "limit", "hidden":
			refused = parseItemOption(name, value, hasValue, req)
		default:
			refused = unknownOption(req.Op)
		}
		if refused != nil {
			return refused
		}
	}
	return nil
}

// parseItemOption parses an option about keys or single items.
func parseItemOption(name, value []byte, hasValue bool, req *Request) *ProtocolError {
	one := req.Op == OpPeek || req.Op == OpRemove || req.Op == OpTouch
	var flag *bool
	switch string(name) {
	case "key":
		if one || req.Op == OpPut {
			return parseKey(value, req)
		}
	case "id":
		if one {
			return parseNumber(value, &req.ID, 1, math.MaxUint64, errID)
		}
	case "from":
		if req.Op == OpList {
			return parseNumber(value, &req.From, 0, math.MaxUint64, errFrom)
		}
	case "limit":
		if req.Op == OpList {
			limit := uint64(req.Limit)
			refused := parseNumber(value, &limit, 1, maxLimit, errLimit)
			req.Limit = int(limit)
			return refused
		}
	case "new":
		flag = &req.New
	case "replace":
		flag = &req.Replace
	case "hidden":
		flag = &req.Hidden
	}
	if flag == nil || hasValue || (flag == &req.Hidden) != (req.Op == OpList) || flag != &req.Hidden && req.Op != OpPut {
		return unknownOption(req.Op)
	}
	if *flag {
		return errTwice
	}
	*flag = true
	return nil
}

// parseNumber parses a number from least to most, which has not been set before.
func parseNumber(value []byte, n *uint64, least, most uint64, bad *ProtocolError) *ProtocolError {
	if *n != 0 {
		return errTwice
	}
	v, ok := parseUint(value)
	if !ok || v < least || v > most {
		return bad
	}
	*n = v
	return nil
}

func parseKey(value []byte, req *Request) *ProtocolError {
	if len(req.Key) > 0 {
		return errTwice
	}
	if len(value) == 0 || len(value) > maxKey {
		return errKey
	}
	for _, c := range value {
		if c <= ' ' || c == 0x7f || c == '/' {
			return errKey
		}
	}
	req.Key = value
	return nil
}

// unknownOption returns why a command refuses a word that is no option of its own, or nil.
func unknownOption(op Op) *ProtocolError {
	if op >= OpTouch {
		return errOption
	}
	return nil
}

func parseLease(value []byte, hasValue bool, req *Request) *ProtocolError {
	if req.HasLease {
		return errTwice
	}
	req.HasLease = true
	if !hasValue {
		return nil
	}
	millis, ok := parseUint(value)
	if !ok || millis == 0 || millis > maxMillis {
		return errLease
	}
	req.LeaseMillis = int64(millis)
	return nil
}

func parseDelay(value []byte, req *Request) *ProtocolError {
	if req.HasDelay {
		return errTwice
	}
	req.HasDelay = true
	millis, ok := parseUint(value)
	if !ok || millis > maxMillis {
		return errDelay
	}
	req.DelayMillis = int64(millis)
	return nil
}

func parseMeta(hasValue bool, req *Request) *ProtocolError {
	switch {
	case req.Op != OpGet && req.Op != OpPeek && req.Op != OpList:
		return unknownOption(req.Op)
	case hasValue:
		return errMeta
	case req.Meta:
		return errTwice
	}
	req.Meta = true
	return nil
}

func parseReceipt(value []byte, req *Request) *ProtocolError {
	if req.Receipt != 0 {
		return errTwice
	}
	var ok bool
	if req.Receipt, ok = parseUint(value); !ok || req.Receipt == 0 {
		return errReceipt
	}
	return nil
}

// parseWhich parses `<queue> id=<id>` or `<queue> key=<key>`.
func parseWhich(args []byte, req *Request) *ProtocolError {
	if len(args) == 0 {
		return errNoQueue
	}
	req.Queue, args = cutWord(args)
	if refused := parseOptions(args, req); refused != nil {
		return refused
	}
	if (req.ID != 0) == (len(req.Key) > 0) {
		return errWhich
	}
	return nil
}

// parseList parses `<queue> [from=<id>] [limit=<items>] [hidden] [meta]`.
func parseList(args []byte, req *Request) *ProtocolError {
	if len(args) == 0 {
		return errNoQueue
	}
	req.Queue, args = cutWord(args)
	return parseOptions(args, req)
}

// parseTouchItem parses `id=<id> <milliseconds>` or `key=<key> <milliseconds>`.
func parseTouchItem(args []byte, req *Request) *ProtocolError {
	word, args := cutWord(args)
	name, value, hasValue := cutOption(word)
	if refused := parseItemOption(name, value, hasValue, req); refused != nil {
		return refused
	}
	number, _ := cutWord(args)
	millis, ok := parseUint(number)
	if !ok || millis > maxMillis {
		return errExpiryLeft
	}
	req.TouchMillis = int64(millis)
	return nil
}

// parseTouch parses `<queue> receipt=<receipt> <milliseconds>`, or that with an id or a key.
func parseTouch(args []byte, req *Request) *ProtocolError {
	if len(args) == 0 {
		return errNoQueue
	}
	req.Queue, args = cutWord(args)
	if isOption(args, "id") || isOption(args, "key") {
		return parseTouchItem(args, req)
	}
	if !isOption(args, "receipt") {
		return errTouch
	}
	word, args := cutWord(args)
	_, value, _ := cutOption(word)
	if refused := parseReceipt(value, req); refused != nil {
		return refused
	}
	number, _ := cutWord(args)
	millis, ok := parseUint(number)
	if !ok || millis == 0 || millis > maxMillis {
		return errLease
	}
	req.LeaseMillis = int64(millis)
	return nil
}

// parseUint returns the number that value, of digits alone, stands for.
func parseUint(value []byte) (v uint64, ok bool) {
	for _, c := range value {
		digit := uint64(c - '0')
		if c < '0' || c > '9' || v > (math.MaxUint64-digit)/10 {
			return 0, false
		}
		v = v*10 + digit
	}
	return v, len(value) > 0
}

// cutWord returns the bytes of b before its first space and those after it. As a line's last word
// is never empty, rest is empty only if word was the last one.
func cutWord(b []byte) (word, rest []byte) {
	if i := bytes.IndexByte(b, ' '); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}
