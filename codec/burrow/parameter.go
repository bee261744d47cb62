package burrow

import "bytes"

// parameter is a set of parameters.
type parameter uint8

const (
	paramTTL parameter = 1 << iota
	paramHide
	paramLimit
	paramMarker
	paramHidden
	paramDetail
	paramWait

	paramAttributes = paramTTL | paramHide
	paramList       = paramLimit | paramMarker | paramDetail
	paramMatch      = paramList | paramHidden | paramWait
)

// lookupParameter returns the parameter of that name, or 0. Hidden and show_hidden are older names of
// match_hidden.
func lookupParameter(name []byte) parameter {
	switch string(name) {
	case "ttl":
		return paramTTL
	case "hide":
		return paramHide
	case "limit":
		return paramLimit
	case "marker":
		return paramMarker
	case "match_hidden", "hidden", "show_hidden":
		return paramHidden
	case "detail":
		return paramDetail
	case "wait":
		return paramWait
	}
	return 0
}

// parameters returns the ones that count for the operation. It ignores the others, whatever they say.
func (op Op) parameters() parameter {
	switch op {
	case OpListAccounts, OpDeleteAccounts, OpListQueues, OpDeleteQueues:
		return paramList
	case OpAccounts, OpQueues:
		return paramLimit | paramMarker
	case OpBrowse:
		return paramLimit | paramMarker | paramHidden
	case OpGetMessages, OpDeleteMessages:
		return paramMatch
	case OpUpdateMessages:
		return paramMatch | paramAttributes
	case OpPutMessage:
		return paramAttributes
	case OpGetMessage, OpDeleteMessage:
		return paramDetail
	case OpUpdateMessage:
		return paramAttributes | paramDetail
	}
	return 0
}

// ParseForm reads the parameters of a POST from its form. Those of the target win. It decodes form in
// place, and the slices of req then lie inside it as well. Call it if [Head.Form] is set, the method is
// POST, and the form has at most MaxForm bytes. Any error is a *ProtocolError that is not fatal.
func (req *Request) ParseForm(form []byte) error {
	return req.parseParameters(form, req.sent)
}

// parseParameters reads the parameters of query that count, but for those in fixed. The last of
// several with one name wins.
func (req *Request) parseParameters(query []byte, fixed parameter) error {
	counts := req.Op.parameters() &^ fixed
	for len(query) > 0 {
		var pair []byte
		pair, query, _ = bytes.Cut(query, ampersand)
		name, value, _ := bytes.Cut(pair, equals)
		p := lookupParameter(name) & counts
		if p == 0 {
			if req.Modern && len(pair) > 0 {
				return errParameter
			}
			continue
		}
		req.sent |= p
		value, err := unescape(value, true)
		if err != nil {
			return err
		}
		if err := req.set(p, value); err != nil {
			return err
		}
	}
	return nil
}

// set sets one parameter.
func (req *Request) set(p parameter, value []byte) error {
	var ok bool
	switch p {
	case paramTTL:
		if req.TTL, ok = parseNumber(value); !ok {
			return errTTL
		}
		req.HasTTL = true
	case paramHide:
		if req.Hide, ok = parseNumber(value); !ok {
			return errHide
		}
		req.HasHide = true
	case paramLimit:
		if req.Limit, ok = parseNumber(value); !ok || req.Limit == 0 {
			return errLimit
		}
		if req.Modern && req.Limit > MostMessages {
			return errMost
		}
	case paramWait:
		if req.Wait, ok = parseNumber(value); !ok {
			return errWait
		}
	case paramMarker:
		req.Marker = value
	case paramHidden:
		req.MatchHidden = equalFold(value, "true")
	case paramDetail:
		req.Detail = lookupDetail(value)
		ofNames := req.Op.parameters() == paramList
		if req.Detail == 0 || ofNames && (req.Detail == DetailAttributes || req.Detail == DetailBody) {
			req.Detail, req.Word = 0, value
			return errDetail
		}
	}
	return nil
}

// parseNumber parses a whole number from 0 to maxNumber.
func parseNumber(s []byte) (n int64, ok bool) {
	if len(s) > 1 && s[0] == '+' {
		s = s[1:]
	}
	if len(s) == 0 {
		return 0, false
	}
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = n*10 + int64(c-'0'); n > maxNumber {
			return 0, false
		}
	}
	return n, true
}
