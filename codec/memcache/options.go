package memcache

import (
	"bytes"
	"math"
)

// Options of leases and delays, behind slashes. They are read as bytes and refused with a reason, which is
// sent; the connection goes on. Those that Kestrel had keep the rules that it had for them.

const (
	maxMillis = 999_999_999_999 // of a lease or delay: about 31 years
	maxKey    = 250             // bytes of a key
	maxLimit  = 10_000          // items of a list
)

// cutOption returns the first of the options, which are separated by slashes, and the others. Its value
// is what stands behind the equals sign; hasValue says that there is one.
func cutOption(options []byte) (name, value []byte, hasValue bool, rest []byte) {
	name = options
	if slash := bytes.IndexByte(options, '/'); slash >= 0 {
		name, rest = options[:slash], options[slash+1:]
	}
	if equals := bytes.IndexByte(name, '='); equals >= 0 {
		return name[:equals], name[equals+1:], true, rest
	}
	return name, nil, false, rest
}

// parseUsual parses the options of a GET if they are open, close or how long to wait, as they are for most. It takes them
// with all that follows them in their line. It reports whether that is all there is; if not, it has changed nothing.
func parseUsual(options []byte, req *Request) bool {
	var opens, closes bool
	var wait int32
	for rest := options; ; {
		n := 0
		switch {
		case len(rest) >= 4 && string(rest[:4]) == "open":
			opens, n = true, 4
		case len(rest) >= 5 && string(rest[:5]) == "close":
			closes, n = true, 5
		case len(rest) >= 3 && string(rest[:2]) == "t=":
			wait = 0
			for n = 2; n < len(rest) && isDigit(rest[n]) && n < 2+9; n++ { // more digits may be too many
				wait = wait*10 + int32(rest[n]-'0')
			}
		}
		if n > 2 && n == len(rest) {
			req.Open, req.Close, req.WaitMillis = opens, closes, wait
			return true
		}
		if n <= 2 || rest[n] != '/' {
			return false
		}
		rest = rest[n+1:]
	}
}

// parseOptions parses the options of a GET. Of those that Kestrel had, the last one counts.
func parseOptions(options []byte, req *Request) *ProtocolError {
	var refused *ProtocolError
	all := options
	for len(options) > 0 {
		option := options
		if slash := bytes.IndexByte(options, '/'); slash >= 0 {
			option, options = options[:slash], options[slash+1:]
		} else {
			options = nil
		}
		switch string(option) {
		case "open":
			req.Open = true
		case "close":
			if req.Close && req.Receipt != 0 && refused == nil {
				refused = errTwice
			}
			req.Close = true
		case "peek":
			req.Peek = true
		default:
			if len(option) >= 2 && option[0] == 't' && option[1] == '=' {
				wait, ok := parseInt32(option[2:])
				if !ok {
					return errWait
				}
				req.WaitMillis = wait
				continue
			}
			req.extended, req.more = true, true
			r, known := parseSource(option, all, req)
			if !known {
				if len(req.ItemKey) > 0 && !isOption(option) { // what stands behind a slash in a key
					refused = errKey
				}
				r = parseLeaseOption(option, req)
			}
			if refused == nil {
				refused = r
			}
		}
	}
	switch {
	case refused != nil:
		return refused
	case req.extended && len(req.Several) > 0 && (req.Close || req.Abort || req.Release || req.Reject || req.HasDelay || req.Browses()):
		return errCombination
	case req.usesLeases():
		if !req.optionsFit() {
			return errCombination
		}
	case (req.Peek || req.Abort) && (req.Open || req.Close) || req.Peek && req.Abort:
		return errOptions
	}
	return nil
}

// IsPlain reports whether a GET takes an item for good, and says nothing else of it.
func (req *Request) IsPlain() bool {
	return !req.Open && !req.Close && !req.Abort && !req.Peek && (!req.extended || len(req.Several) == 0 && !req.usesLeases())
}

// usesLeases reports whether a GET has an option that Kestrel did not have.
func (req *Request) usesLeases() bool {
	return req.extended && (req.HasLease || req.Receipt != 0 || req.Release || req.Reject || req.Meta || req.HasDelay ||
		req.Browses() || req.Limit != 0 || req.Hidden)
}

// Browses reports whether a GET looks at one item, or lists some, and takes none.
func (req *Request) Browses() bool { return req.ID != 0 || len(req.ItemKey) > 0 || req.List }

// browseFits reports whether the options of a GET that Browses, or asks for some of what only such a one does, go
// together.
func (req *Request) browseFits() bool {
	kinds := 0
	for _, is := range [...]bool{req.ID != 0, len(req.ItemKey) > 0, req.List} {
		if is {
			kinds++
		}
	}
	fetches := req.Open || req.Close || req.Abort || req.Peek || req.HasLease || req.Release || req.Reject ||
		req.HasDelay || req.WaitMillis != 0 || req.CAS
	return kinds == 1 && !fetches && (req.List || req.Limit == 0 && !req.Hidden)
}

// optionsFit reports whether the options of a GET that uses leases go together.
func (req *Request) optionsFit() bool {
	if req.Browses() || req.Limit != 0 || req.Hidden {
		return req.browseFits()
	}
	ends := 0
	for _, is := range [...]bool{req.Abort, req.Release, req.Reject, req.Close && req.Receipt != 0} {
		if is {
			ends++
		}
	}
	fetches := req.Open || req.Peek || req.HasLease || req.Meta
	switch {
	case ends > 1, ends == 1 && (fetches || req.Close && req.Receipt == 0):
		return false
	case ends == 1:
		return !req.HasDelay || req.Abort || req.Release
	case req.HasDelay, req.HasLease && (req.Open || req.Peek), req.Peek && (req.Open || req.Close):
		return false
	}
	return !req.Meta || !req.Close || req.Open || req.HasLease // a close alone has no item to describe
}

// parseLeaseOption parses one option of a GET that Kestrel did not have, or gave no value. An option that
// nobody knows is ignored, as Kestrel did.
func parseLeaseOption(option []byte, req *Request) *ProtocolError {
	name, value, hasValue, _ := cutOption(option)
	var ends *bool
	switch string(name) {
	case "close":
		ends = &req.Close
	case "abort":
		ends = &req.Abort
	case "release":
		ends = &req.Release
	case "reject":
		ends = &req.Reject
	case "lease":
		return parseLease(value, hasValue, req)
	case "delay":
		return parseDelay(value, hasValue, req)
	case "id", "key", "from", "limit":
		return parseBrowse(name, value, req)
	case "hidden":
		if hasValue {
			return nil
		}
		if req.Hidden {
			return errTwice
		}
		req.Hidden = true
		return nil
	case "meta":
		if hasValue {
			return nil
		}
		if req.Meta {
			return errTwice
		}
		req.Meta = true
		return nil
	default:
		return nil
	}
	if *ends && (hasValue || req.Receipt != 0 || req.Release || req.Reject) {
		return errTwice
	}
	*ends = true
	if !hasValue {
		return nil
	}
	if req.Receipt != 0 {
		return errCombination
	}
	var ok bool
	if req.Receipt, ok = parseReceipt(value); !ok {
		return errReceipt
	}
	return nil
}

// isOption reports whether an option is one that parseLeaseOption knows.
func isOption(option []byte) bool {
	name, _, _, _ := cutOption(option)
	switch string(name) {
	case "close", "abort", "release", "reject", "lease", "delay", "meta", "id", "key", "from", "limit", "hidden", "or", "weight":
		return true
	}
	return false
}

// parseLease parses the lease of a GET: its milliseconds, or none for those of the queue.
func parseLease(value []byte, hasValue bool, req *Request) *ProtocolError {
	if req.HasLease {
		return errTwice
	}
	req.HasLease = true
	if !hasValue {
		return nil
	}
	var ok bool
	if req.LeaseMillis, ok = parseMillis(value); !ok || req.LeaseMillis == 0 {
		return errLease
	}
	return nil
}

func parseDelay(value []byte, hasValue bool, req *Request) *ProtocolError {
	if req.HasDelay {
		return errTwice
	}
	req.HasDelay = true
	var ok bool
	if req.DelayMillis, ok = parseMillis(value); !ok || !hasValue {
		return errDelay
	}
	return nil
}

// parsePutOptions takes the options off the queue name of a SET. A name with something else behind a slash
// is left as it is: no queue can have it.
func parsePutOptions(req *Request) *ProtocolError {
	slash := bytes.IndexByte(req.Queue, '/')
	if slash <= 0 {
		return nil
	}
	req.more = true
	var refused *ProtocolError
	for options := req.Queue[slash+1:]; ; {
		name, value, hasValue, rest := cutOption(options)
		r, known := parsePutOption(name, value, hasValue, req)
		if !known && len(req.ItemKey) > 0 { // it stands behind a slash in the key
			r, known = errKey, true
		}
		if !known {
			req.HasDelay, req.DelayMillis, req.ItemKey, req.New, req.Replace = false, 0, nil, false, false
			return nil
		}
		if refused == nil {
			refused = r
		}
		if len(rest) == 0 {
			break
		}
		options = rest
	}
	req.Queue = req.Queue[:slash]
	switch {
	case refused != nil:
	case req.New && req.Replace:
		refused = errCombination
	case (req.New || req.Replace) && len(req.ItemKey) == 0:
		refused = errNeedsKey
	}
	return refused
}

// parsePutOption parses one option of a SET, and reports whether there is such a one.
func parsePutOption(name, value []byte, hasValue bool, req *Request) (refused *ProtocolError, known bool) {
	var flag *bool
	switch string(name) {
	case "delay":
		return parseDelay(value, hasValue, req), true
	case "key":
		return parseKey(value, req), true
	case "new":
		flag = &req.New
	case "replace":
		flag = &req.Replace
	default:
		return nil, false
	}
	if *flag {
		return errTwice, true
	}
	*flag = true
	return nil, !hasValue
}

// parseKey parses the key of an item.
func parseKey(value []byte, req *Request) *ProtocolError {
	if len(req.ItemKey) > 0 {
		return errTwice
	}
	if len(value) == 0 || len(value) > maxKey {
		return errKey
	}
	for _, c := range value {
		if c <= ' ' || c == 0x7f {
			return errKey
		}
	}
	req.ItemKey = value
	return nil
}

// parseBrowse parses the option of a GET, DELETE or TOUCH that names an item, or of a GET that names several.
func parseBrowse(name, value []byte, req *Request) *ProtocolError {
	n, ok := parseUint(value)
	switch string(name) {
	case "key":
		return parseKey(value, req)
	case "id":
		switch {
		case req.ID != 0:
			return errTwice
		case !ok || n == 0:
			return errID
		}
		req.ID = n
	case "from":
		switch {
		case req.List:
			return errTwice
		case !ok:
			return errFrom
		}
		req.List, req.From = true, n
	default:
		switch {
		case req.Limit != 0:
			return errTwice
		case !ok || n == 0 || n > maxLimit:
			return errLimit
		}
		req.Limit = int(n)
	}
	return nil
}

// parseTouch parses `<queue>/lease[=<receipt>] <seconds>`, `<queue>/id=<id> <seconds>` or `<queue>/key=<key>
// <seconds>`.
func parseTouch(args []byte, req *Request) *ProtocolError {
	if len(args) == 0 {
		return errMissingArgument
	}
	key, rest := cutWord(args)
	req.Queue = key
	req.NoReply = endsNoReply(rest)
	slash := bytes.IndexByte(key, '/')
	if slash <= 0 {
		return errTouch
	}
	req.Queue = key[:slash]
	name, value, hasValue, more := cutOption(key[slash+1:])
	if string(name) == "id" || string(name) == "key" {
		return parseTouchItem(name, value, more, rest, req)
	}
	if string(name) != "lease" || len(more) > 0 {
		return errTouch
	}
	if hasValue {
		var ok bool
		if req.Receipt, ok = parseReceipt(value); !ok {
			return errReceipt
		}
	}
	seconds, _ := cutWord(rest)
	var ok bool
	if req.Seconds, ok = parseInt32(seconds); !ok || req.Seconds <= 0 {
		return errTouchSeconds
	}
	return nil
}

// parseTouchItem parses a TOUCH of one item.
func parseTouchItem(name, value, more, rest []byte, req *Request) *ProtocolError {
	refused := parseBrowse(name, value, req)
	seconds, _ := cutWord(rest)
	var ok bool
	req.Seconds, ok = parseInt32(seconds)
	switch {
	case refused != nil:
		return refused
	case len(more) > 0 && string(name) == "key":
		return errKey
	case len(more) > 0:
		return errTouch
	case !ok || req.Seconds < 0:
		return errTouchExpiry
	}
	return nil
}

// parseDeleteLease takes the receipt, or what names one item, off the queue name of a DELETE, if there is one.
// Other names are left as they are.
func parseDeleteLease(req *Request) *ProtocolError {
	slash := bytes.IndexByte(req.Queue, '/')
	if slash <= 0 {
		return nil
	}
	name, value, _, more := cutOption(req.Queue[slash+1:])
	if string(name) == "id" || string(name) == "key" {
		refused := parseBrowse(name, value, req)
		switch {
		case refused != nil:
		case len(more) > 0 && string(name) == "key":
			refused = errKey
		case len(more) > 0:
			refused = errCombination
		}
		req.Queue = req.Queue[:slash]
		return refused
	}
	if string(name) != "lease" {
		return nil
	}
	var ok bool
	if req.Receipt, ok = parseReceipt(value); !ok || len(more) > 0 {
		return errReceipt
	}
	req.Queue = req.Queue[:slash]
	return nil
}

// parseMillis returns the number from 0 to maxMillis that value stands for.
func parseMillis(value []byte) (n int64, ok bool) {
	v, ok := parseUint(value)
	return int64(v), ok && v <= maxMillis
}

// parseReceipt returns the number from 1 to 2^64-1 that value stands for.
func parseReceipt(value []byte) (receipt uint64, ok bool) {
	receipt, ok = parseUint(value)
	return receipt, ok && receipt != 0
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

// A GET from several queues names the others in its options: `<queue>/or=<queue>/or=<queue>`. A weight stands
// behind the queue that has it: `<queue>/weight=3/or=<queue>`.

const (
	// MaxQueues is how many queues a GET may name.
	MaxQueues = 16
	// MaxWeight is the largest weight.
	MaxWeight = 1_000_000
)

// Source is a queue that a GET names.
type Source struct {
	Queue  []byte // as sent
	Weight int    // 0: none was sent
}

// Queues appends the queues that a GET with Several names to dst, in their order.
func (req *Request) Queues(dst []Source) []Source {
	dst = append(dst, Source{Queue: req.Queue})
	for rest := req.Several; len(rest) > 0; {
		var name, value []byte
		switch name, value, _, rest = cutOption(rest); string(name) {
		case "or":
			dst = append(dst, Source{Queue: value})
		case "weight":
			weight, _ := parseUint(value)
			dst[len(dst)-1].Weight = int(weight)
		}
	}
	return dst
}

// parseSource parses one of all options of a GET if it names a queue or a weight, and reports whether it does.
func parseSource(option, all []byte, req *Request) (refused *ProtocolError, known bool) {
	name, value, hasValue, _ := cutOption(option)
	switch string(name) {
	case "or":
		req.Several = all
		if req.weighted = false; len(value) == 0 || onlyByte(value, '+') {
			return errOr, true
		}
		if req.others++; req.others == MaxQueues {
			req.others--
			return errManyQueues, true
		}
		return nil, true
	case "weight":
		req.Several = all
		if req.weighted {
			return errTwice, true
		}
		req.weighted = true
		if weight, ok := parseUint(value); !ok || !hasValue || weight == 0 || weight > MaxWeight {
			return errWeight, true
		}
		return nil, true
	}
	return nil, false
}

// appendSources appends the options of a GET that name queues and weights.
func appendSources(dst []byte, req *Request) []byte {
	for rest := req.Several; len(rest) > 0; {
		name, value, _, others := cutOption(rest)
		if string(name) == "or" || string(name) == "weight" {
			dst = append(append(append(append(dst, '/'), name...), '='), value...)
		}
		rest = others
	}
	return dst
}
