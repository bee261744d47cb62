package memcache

// parseArgs fills req from the words after its command, for commands without a body other than
// GET. It returns nil or why the request is refused.
func parseArgs(args []byte, req *Request) *ProtocolError {
	switch req.Op {
	case OpMonitor:
		return parseMonitor(args, req)
	case OpConfirm:
		return parseConfirm(args, req)
	case OpTouch:
		return parseTouch(args, req)
	case OpDelete, OpFlush:
		if len(args) == 0 {
			return errMissingArgument
		}
		req.Queue, _ = cutWord(args)
		if req.Op == OpDelete {
			req.NoReply = endsNoReply(args[len(req.Queue):])
			return parseDeleteLease(req)
		}
	case OpFlushExpired:
		if len(args) == 0 {
			return errFlushExpiredName
		}
		req.Queue, _ = cutWord(args)
	case OpFlushAll:
		const word = "noreply"
		req.NoReply = string(args) == word || endsNoReply(args)
	case OpStatus:
		req.Args, _ = cutWord(args)
		if len(req.Args) == 0 && len(args) > 0 {
			return errStatusName
		}
	case OpStats, OpDumpStats, OpDumpConfig:
		req.Args = args
	}
	return nil
}

// parseGet parses the key of a GET, `<queue>[/<option>]...`. Further keys are ignored.
func parseGet(args []byte, req *Request) *ProtocolError {
	if len(args) == 0 {
		return errMissingArgument
	}
	end, ascii := scanName(args)
	key := args[:end]
	req.Queue, req.plain = key, ascii
	switch {
	case end == len(args) || args[end] == ' ':
	case parseUsual(args[end+1:], req):
		key = args
	default:
		if key, _ = cutWord(args); end == 0 && onlyByte(key, '/') {
			return errSlashKey
		}
		req.Key = key
		if refused := parseOptions(key[end+1:], req); refused != nil {
			return refused
		}
	}
	req.Key = key
	if len(req.Queue) == 0 {
		return errEmptyName
	}
	if req.Queue[0] == '+' && onlyByte(req.Queue, '+') {
		return errPlusName
	}
	return nil
}

// parseMonitor parses `<queue> <seconds> [<max items>]`. The queue keeps its slashes: GET options
// are not understood here.
func parseMonitor(args []byte, req *Request) *ProtocolError {
	req.Queue, args = cutWord(args)
	if len(args) == 0 {
		return errMonitorWords
	}
	var ok bool
	seconds, args := cutWord(args)
	if req.Seconds, ok = parseInt32(seconds); !ok {
		return errMonitorNumber
	}
	if len(args) == 0 {
		return nil
	}
	maxItems, _ := cutWord(args)
	if req.MaxItems, ok = parseInt32(maxItems); !ok {
		return errMonitorNumber
	}
	req.HasMaxItems = true
	return nil
}

// parseConfirm parses `<queue> <count>`.
func parseConfirm(args []byte, req *Request) *ProtocolError {
	req.Queue, args = cutWord(args)
	if len(args) == 0 {
		return errMissingArgument
	}
	count, _ := cutWord(args)
	var ok bool
	if req.Count, ok = parseInt32(count); !ok {
		return errConfirmNumber
	}
	return nil
}
