package text

// A GET or PEEK from several queues names the others in its options: `<queue> or=<queue> or=<queue>`. A weight
// stands behind the queue that has it: `<queue> weight=3 or=<queue>`.

const (
	// MaxQueues is how many queues a request may name.
	MaxQueues = 16
	// MaxWeight is the largest weight.
	MaxWeight = 1_000_000
)

// Source is a queue that a request names.
type Source struct {
	Queue  []byte // as sent
	Weight int    // 0: none was sent
}

// Queues appends the queues that a request with Several names to dst, in their order.
func (req *Request) Queues(dst []Source) []Source {
	dst = append(dst, Source{Queue: req.Queue})
	for rest := req.Several; len(rest) > 0; {
		var word []byte
		word, rest = cutWord(rest)
		switch name, value, _ := cutOption(word); string(name) {
		case "or":
			dst = append(dst, Source{Queue: value})
		case "weight":
			weight, _ := parseUint(value)
			dst[len(dst)-1].Weight = int(weight)
		}
	}
	return dst
}

// parseSource parses an option that names a queue, or a weight.
func parseSource(name, value []byte, req *Request) *ProtocolError {
	if string(name) == "or" {
		if req.weighted = false; len(value) == 0 {
			return errOr
		}
		if req.others++; req.others == MaxQueues {
			req.others--
			return errManyQueues
		}
		return nil
	}
	if req.weighted {
		return errTwice
	}
	req.weighted = true
	if weight, ok := parseUint(value); !ok || weight == 0 || weight > MaxWeight {
		return errWeight
	}
	return nil
}

// appendSources appends the options of a request that name queues and weights.
func appendSources(dst []byte, req *Request) []byte {
	for rest := req.Several; len(rest) > 0; {
		var word []byte
		word, rest = cutWord(rest)
		if name, _, _ := cutOption(word); string(name) == "or" || string(name) == "weight" {
			dst = append(append(dst, ' '), word...)
		}
	}
	return dst
}
