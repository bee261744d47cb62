package memcache

import (
	"bytes"
	"math"
)

// Reply grammar, as a client reads it. A line that is none of these is a text reply: counts, status
// names, the lines of DUMP_STATS and DUMP_CONFIG.
//
//	reply = "STORED" EOL / "NOT_STORED" EOL / "DELETED" EOL / "TOUCHED" EOL / "NOT_FOUND" EOL / "END" EOL
//	      / "ERROR" [ SP text ] EOL
//	      / "CLIENT_ERROR" [ SP text ] EOL
//	      / "SERVER_ERROR" [ SP text ] EOL
//	      / "VERSION" [ SP text ] EOL
//	      / "STAT" [ SP text ] EOL
//	      / [ meta ] "VALUE" SP queue SP flags SP N [ SP cas ] EOL N OCTET CR LF "END" CR LF
//	meta  = "VALUE" SP queue SP flags SP N EOL N OCTET CR LF
//	      / text EOL
//	EOL   = [ CR ] LF

// MaxReplyLine is the longest reply line a client accepts, in bytes, line end included. Lists of a
// queue's children can be long.
const MaxReplyLine = 1 << 20

// Kind says what a server answered. The zero Kind is no reply.
type Kind uint8

// The kinds of replies, with the fields of [Reply] each of them sets.
const (
	KindStored      Kind = iota + 1
	KindNotStored        // the item was refused
	KindValue            // one item, with the END that follows it: Queue, Flags, Data, CAS
	KindEnd              // no item, or the end of a longer reply
	KindDeleted          //
	KindError            // Text: the words after ERROR, usually none
	KindClientError      // Text: the words after CLIENT_ERROR, usually none
	KindServerError      // Text: the words after SERVER_ERROR, usually none
	KindVersion          // Text: the version
	KindStat             // Text: "<name> <value>"
	KindText             // Text: the whole line
	KindTouched          //
	KindNotFound         // there is no such lease
)

// kindNames holds the status words of the wire, which also serve as names of the kinds.
var kindNames = [...]string{
	KindStored:      "STORED",
	KindNotStored:   "NOT_STORED",
	KindValue:       "VALUE",
	KindEnd:         "END",
	KindDeleted:     "DELETED",
	KindError:       "ERROR",
	KindClientError: "CLIENT_ERROR",
	KindServerError: "SERVER_ERROR",
	KindVersion:     "VERSION",
	KindStat:        "STAT",
	KindText:        "text",
	KindTouched:     "TOUCHED",
	KindNotFound:    "NOT_FOUND",
}

// String returns the status word of the reply, "text" or "unknown".
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}

// Reply is one decoded reply. DecodeReply overwrites all of it; the slices alias the bytes given to
// DecodeReply.
type Reply struct {
	Kind  Kind
	Flags uint32
	Queue []byte // the name in a VALUE line
	Data  []byte // the item's bytes
	CAS   uint64 // the receipt of a lease; 0 if the reply has none
	Meta  []byte // of a GET with Meta: JSON, as AppendMeta writes it
	Text  []byte // see Kind; without the line end

	// Need is set on ErrIncomplete once the length of the reply is known: the bytes needed in
	// all, from the start of src. It is 0 while the line end is missing.
	Need int
}

// DecodeReply parses one reply at the start of src and returns the bytes it occupied. It overwrites
// r, whose slices alias src. Each item of a MONITOR is a reply of its own, and so is each line of
// STATS, DUMP_STATS and DUMP_CONFIG.
//
// It returns ErrIncomplete and 0 when src is a proper prefix of a reply. It returns ErrBadReply and 0 for a line longer
// than MaxReplyLine, and for a VALUE line with missing or unusable words. So it does for an item without ValueTrailer
// behind it. It keeps no state and does not allocate. A reply is as large as the server says, up to 2 GiB: let buffers
// grow with the bytes received, not with Need.
func DecodeReply(src []byte, r *Reply) (n int, err error) {
	*r = Reply{}
	end := bytes.IndexByte(src[:min(len(src), MaxReplyLine)], '\n')
	if end < 0 {
		if len(src) >= MaxReplyLine {
			return 0, ErrBadReply
		}
		return 0, ErrIncomplete
	}
	n = end + 1
	if end > 0 && src[end-1] == '\r' {
		end--
	}
	line := src[:end]
	word, text := cutWord(line)
	kind := lookupKind(word)
	switch kind {
	case KindValue:
		n, err := decodeValue(src, n, text, r)
		if err == nil && r.Kind == 0 {
			return decodeDescribed(src, n, r)
		}
		return n, err
	case KindError, KindClientError, KindServerError, KindVersion, KindStat:
		r.Text = text
	default:
		if kind == KindText || len(word) < len(line) {
			kind = KindText
			r.Text = line
		}
	}
	r.Kind = kind
	return n, nil
}

// DecodeListed parses one value of a list at the start of src, or any other reply, such as the one that ends the
// list. With Meta, a value whose Queue ends in /meta describes the next. It is like DecodeReply otherwise.
func DecodeListed(src []byte, r *Reply) (n int, err error) {
	end := bytes.IndexByte(src[:min(len(src), MaxReplyLine)], '\n')
	if end < 0 || !bytes.HasPrefix(src, []byte("VALUE ")) {
		return DecodeReply(src, r)
	}
	*r = Reply{}
	queue, rest := cutWord(bytes.TrimSuffix(src[len("VALUE "):end], []byte("\r")))
	flags, size, ok := scanNumber(rest, 0)
	if !ok || !isFlags(flags) || size == len(rest) {
		return 0, ErrBadReply
	}
	count, ok := parseUint(rest[size+1:])
	if !ok || count > math.MaxInt32 {
		return 0, ErrBadReply
	}
	dataEnd := end + 1 + int(count)
	n = dataEnd + len("\r\n")
	switch {
	case len(src) < n:
		r.Need = n
		return 0, ErrIncomplete
	case string(src[dataEnd:n]) != "\r\n":
		return 0, ErrBadReply
	}
	r.Kind, r.Queue, r.Flags, r.Data = KindValue, queue, uint32(flags), src[end+1:dataEnd]
	return n, nil
}

// decodeDescribed decodes the item whose line begins at offset line of src, behind what describes it.
func decodeDescribed(src []byte, line int, r *Reply) (n int, err error) {
	end := bytes.IndexByte(src[line:min(len(src), line+MaxReplyLine)], '\n')
	meta := r.Meta
	if *r = (Reply{Meta: meta}); end < 0 {
		if len(src)-line >= MaxReplyLine {
			return 0, ErrBadReply
		}
		return 0, ErrIncomplete
	}
	n = line + end + 1
	_, words := cutWord(bytes.TrimSuffix(src[line:n-1], []byte("\r")))
	return decodeValue(src, n, words, r)
}

// decodeValue decodes an item, of which words are those after VALUE and data is the offset in src
// behind the line. If it is not an item but describes one, it sets Meta, and no Kind, and returns where the
// line of the item begins.
func decodeValue(src []byte, data int, words []byte, r *Reply) (n int, err error) {
	queue, rest := cutWord(words)
	flags, end, ok := scanNumber(rest, 0)
	if !ok || !isFlags(flags) || end == len(rest) {
		return 0, ErrBadReply
	}
	count, end, ok := scanNumber(rest, end+1)
	if !ok || count < 0 || count > math.MaxInt32 {
		return 0, ErrBadReply
	}
	var cas uint64
	if end < len(rest) {
		if cas, ok = parseUint(rest[end+1:]); !ok { // or more than a cas id
			return 0, ErrBadReply
		}
	}
	dataEnd := data + int(count)
	n = dataEnd + len(ValueTrailer)
	if len(src) < n {
		r.Need = n
		return 0, ErrIncomplete
	}
	if string(src[dataEnd:n]) != ValueTrailer {
		if string(src[dataEnd:n]) == "\r\nVALUE" && r.Meta == nil && cas == 0 {
			r.Meta = src[data:dataEnd]
			return dataEnd + len("\r\n"), nil
		}
		return 0, ErrBadReply
	}
	r.Kind = KindValue
	r.Queue = queue
	r.Flags = uint32(flags)
	r.CAS = cas
	r.Data = src[data:dataEnd]
	return n, nil
}

// lookupKind returns the kind a reply's first word stands for.
func lookupKind(word []byte) Kind {
	switch string(word) {
	case "STORED":
		return KindStored
	case "NOT_STORED":
		return KindNotStored
	case "VALUE":
		return KindValue
	case "END":
		return KindEnd
	case "DELETED":
		return KindDeleted
	case "ERROR":
		return KindError
	case "CLIENT_ERROR":
		return KindClientError
	case "SERVER_ERROR":
		return KindServerError
	case "VERSION":
		return KindVersion
	case "STAT":
		return KindStat
	case "TOUCHED":
		return KindTouched
	case "NOT_FOUND":
		return KindNotFound
	}
	return KindText
}
