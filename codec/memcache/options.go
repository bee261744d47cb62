package memcache

import (
	"bytes"
	"math"
)

// Options of leases and delays, behind slashes. They are read as bytes and refused with a reason, which is
// sent; the connection goes on. Those that Kestrel had keep the rules that it had for them.

// maxMillis bounds a lease or delay: about 31 years.
const maxMillis = 999_999_999_999

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

// parseOptions parses the options of a GET. Of those that Kestrel had, the last one counts.
func parseOptions(options []byte, req *Request) *ProtocolError {
	var refused *ProtocolError
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
			if r := parseLeaseOption(option, req); refused == nil {
				refused = r
			}
		}
	}
	switch {
	case refused != nil:
		return refused
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
	return !req.Open && !req.Close && !req.Abort && !req.Peek && !req.usesLeases()
}

// usesLeases reports whether a GET has an option that Kestrel did not have.
func (req *Request) usesLeases() bool {
	return req.HasLease || req.Receipt != 0 || req.Release || req.Reject || req.Meta || req.HasDelay
}

// optionsFit reports whether the options of a GET that uses leases go together.
func (req *Request) optionsFit() bool {
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
	var refused *ProtocolError
	for options := req.Queue[slash+1:]; ; {
		name, value, hasValue, rest := cutOption(options)
		if string(name) != "delay" {
			req.HasDelay, req.DelayMillis = false, 0
			return nil
		}
		if r := parseDelay(value, hasValue, req); refused == nil {
			refused = r
		}
		if len(rest) == 0 {
			break
		}
		options = rest
	}
	req.Queue = req.Queue[:slash]
	return refused
}

// parseTouch parses `<queue>/lease[=<receipt>] <seconds>`.
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

// parseDeleteLease takes the receipt off the queue name of a DELETE, if there is one. Other names are left
// as they are.
func parseDeleteLease(req *Request) *ProtocolError {
	slash := bytes.IndexByte(req.Queue, '/')
	if slash <= 0 {
		return nil
	}
	name, value, _, more := cutOption(req.Queue[slash+1:])
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
