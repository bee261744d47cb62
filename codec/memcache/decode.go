package memcache

import (
	"bytes"
	"math"
)

// Request grammar. A line is split at every single space; empty words count, except at the end of
// the line, where they are dropped. Commands are case-insensitive, all else is case-sensitive, and
// words after those named here are ignored. A num is an int32: an optional sign and decimal digits.
//
//	request = line [ body 2OCTET ]      ; BadEnd says that the two are not CRLF
//	line    = command *( SP word ) *SP [ CR ] LF
//	body    = N OCTET                   ; after set, add, replace, append, prepend and cas
//
//	get, gets          <queue>[/<option>]...
//	set                <queue>[/put]... <flags> <expiry> <N> [... noreply]
//	monitor            <queue> <seconds> [<max items>]
//	confirm            <queue> <count>
//	delete             <queue>[/lease=<receipt> / /which] [... noreply]
//	touch              <queue>/lease[=<receipt>] <seconds> [... noreply]
//	touch              <queue>/which <seconds> [... noreply]
//	flush              <queue>
//	flush_all          [... noreply]
//	flush_expired      <queue>
//	flush_all_expired
//	stats
//	dump_stats         [<queue>...]
//	dump_config        [<queue>...]
//	status             [<name>]
//	version, reload, shutdown, quit
//
//	option  = "or=" queue / "weight=" digits / "t=" num / "open" / "peek" / "meta" / "lease" [ "=" ms ] / "delay=" ms
//	        / ( "close" / "abort" / "release" / "reject" ) [ "=" receipt ]
//	        / which / "from=" digits / "limit=" digits / "hidden" / any other, ignored
//	put     = "delay=" ms / "key=" key / "new" / "replace"
//	which   = "id=" digits / "key=" key
//	key     = 1 to 250 bytes without control bytes, blanks and slashes
//	ms      = digits, up to 999999999999
//	receipt = digits, from 1 to 18446744073709551615
//	flags   = num, or up to 4294967295
const (
	DefaultMaxLine = 8 << 10  // bytes, line end included
	DefaultMaxItem = 32 << 20 // bytes

	bodyEndSize = 2 // bytes after a body
)

// Decoder decodes requests. It holds limits only; the zero Decoder has the default ones.
type Decoder struct {
	MaxLine int // bytes of a request line, line end included; 0: DefaultMaxLine
	MaxItem int // bytes of an item; 0: DefaultMaxItem
}

// Decode parses one request at the start of src and returns the bytes it occupied. It overwrites
// req, whose slices alias src; copy what outlives this turn of the loop.
//
// It returns ErrIncomplete and 0 when src is a proper prefix of what may be a request. Then req.Need says how many
// bytes would do, if that is known. It returns ErrTooLarge and the length of the command line for a SET larger than
// MaxItem, with req.Queue, NoReply and Skip set.
//
// Any other error is a *ProtocolError that says how to answer. If it is fatal n is 0 and the stream ends here.
// Otherwise the n bytes of the request are consumed and decoding goes on after them, with req.Op and req.NoReply as the
// request had them. Requests are refused as Kestrel refused them, and in its order. It refuses a line beyond MaxLine,
// and a storage command of the wrong shape or byte count, as soon as it sees that. It refuses all else once the request
// is whole. Queue names pass as sent, with two exceptions. A GET of the empty name is fatal. A GET or SET of a name of
// plus signs only is an error, and not fatal.
//
// Decode keeps no state, does not allocate, and checks every length before using it.
func (d Decoder) Decode(src []byte, req *Request) (n int, err error) {
	req.clear()
	maxLine := d.MaxLine
	if maxLine <= 0 {
		maxLine = DefaultMaxLine
	}
	end := bytes.IndexByte(src[:min(len(src), maxLine)], '\n')
	if end < 0 {
		switch {
		case len(src) > 0 && beginsForeign(src[0]):
			return 0, errForeign
		case len(src) >= maxLine:
			return 0, errLineTooLong
		}
		return 0, ErrIncomplete
	}
	n = end + 1
	line := src[:end]
	if last := len(line) - 1; last >= 0 && line[last] == '\r' {
		line = line[:last]
	}
	for len(line) > 0 && line[len(line)-1] == ' ' {
		line = line[:len(line)-1]
	}
	if len(line) == 0 {
		return 0, errEmptyLine
	}
	if isHTTP(line) {
		return 0, errForeign
	}
	op, args := splitLine(line)
	req.Op = op
	var refused *ProtocolError
	switch op {
	case OpSet, opStore:
		return d.decodeStore(src, n, args, req)
	case OpGet:
		req.CAS = src[3]|0x20 == 's'
		refused = parseGet(args, req)
	case 0:
		if refused = errUnknownCommand; beginsForeign(src[0]) {
			refused = errForeign
		}
	default:
		req.more = true
		refused = parseArgs(args, req)
	}
	if refused != nil {
		if refused.Fatal {
			return 0, refused
		}
		return n, refused
	}
	return n, nil
}

// decodeStore decodes a storage command, of which args are the words after the command and body is
// the offset in src behind its line.
func (d Decoder) decodeStore(src []byte, body int, args []byte, req *Request) (n int, err error) {
	name, ascii := scanName(args)
	queue, rest := args[:name], args[min(name+1, len(args)):]
	hasOptions := name < len(args) && args[name] == '/'
	if req.plain = ascii && !hasOptions; hasOptions {
		queue, rest = cutWord(args)
	}
	flags, end, flagsOK := scanNumber(rest, 0)
	if end == len(rest) {
		return 0, errSetWords
	}
	expiry, end, expiryOK := scanNumber(rest, end+1)
	if end == len(rest) {
		return 0, errSetWords
	}
	count, end, countOK := scanNumber(rest, end+1)
	if !countOK || count < 0 || count > math.MaxInt32 {
		return 0, errByteCount
	}
	req.Queue = queue
	if end < len(rest) {
		req.NoReply = endsNoReply(rest[end:])
	}
	var refused *ProtocolError
	if hasOptions {
		refused = parsePutOptions(req)
	}

	maxItem := d.MaxItem
	if maxItem <= 0 {
		maxItem = DefaultMaxItem
	}
	if count > int64(maxItem) {
		if req.Op == opStore {
			return 0, errUnsupportedStore
		}
		req.Skip = count + bodyEndSize
		return body, ErrTooLarge
	}
	bodyEnd := body + int(count)
	n = bodyEnd + bodyEndSize
	if len(src) < n {
		req.Need = n
		return 0, ErrIncomplete
	}
	switch {
	case req.Op == opStore:
		return 0, errUnsupportedStore
	case !expiryOK || !isInt32(expiry):
		return 0, errExpiry
	case !flagsOK || !isFlags(flags):
		return n, errFlags
	case len(req.Queue) > 0 && req.Queue[0] == '+' && onlyByte(req.Queue, '+'):
		return n, errPlusName
	case refused != nil:
		return n, refused
	}
	req.Data = src[body:bodyEnd]
	req.BadEnd = src[bodyEnd+1] != '\n' || src[bodyEnd] != '\r' && src[bodyEnd] != '\n'
	req.Flags = uint32(flags)
	req.Expiry = expiry
	return n, nil
}
