package text

import (
	"bytes"
	"encoding/binary"
)

// Request grammar. A line is split at every single space; empty words count, except at the end of
// the line, where they are dropped. Commands are case-insensitive, all else is case-sensitive, and
// words after those named here are ignored. A num is an int32: an optional sign and decimal digits.
//
//	request = line / line-with-colon *( item EOL ) EOL  ; no item is empty
//	line    = command *( SP word ) *SP EOL              ; EOL is [ CR ] LF
//
//	put       <queue> [<expiry milliseconds>] [delay=<ms>]
//	get       <queue> [<milliseconds>] [lease[=<ms>]]
//	peek      <queue> [<milliseconds>]
//	monitor   <queue> <milliseconds>
//	confirm   <queue> <count>
//	confirm, reject <queue> receipt=<receipt>
//	abort, release  <queue> receipt=<receipt> [delay=<ms>]
//	touch     <queue> receipt=<receipt> <ms>
//	flush, delete <queue>
//	status    [<name>]
//	auth      <user> <password>                         ; no further words
//	version, shutdown, quit
//
// An ms is decimal digits, up to 999999999999; a receipt is digits, from 1 to 18446744073709551615. In abort,
// release and reject the words behind the queue stand in any order, and the receipt may be left out.
//
// The colon is the last byte before the EOL; it belongs to no word. So the name of a queue that
// ends in a colon needs something behind it: another word, a space or one more colon.
const (
	DefaultMaxLine = 8 << 10  // bytes, line end included
	DefaultMaxItem = 32 << 20 // bytes
)

// Decoder decodes requests. It holds limits only; the zero Decoder has the default ones.
type Decoder struct {
	MaxLine int // bytes of a request line, line end included; 0: DefaultMaxLine
	MaxItem int // bytes of an item; 0: DefaultMaxItem
}

// Decode parses one request line at the start of src and returns the bytes it occupied. It
// overwrites req, whose slices alias src; copy what outlives this turn of the loop.
//
// It returns ErrIncomplete and 0 when src is a proper prefix of a line that may be a request. Any other error is
// a *ProtocolError, whose AppendReply says how to answer. If it is fatal n is 0 and the stream ends
// here; otherwise the n bytes are consumed and decoding goes on after them.
//
// If req.ItemsFollow is set, whether Decode refused the request or not, the lines that follow are
// items: read them with DecodeItem before calling Decode again. Kestrel ran such a request and
// answered at the end of the items; only for PUT does that make a difference.
//
// Decode keeps no state, does not allocate, and checks every length before using it.
func (d Decoder) Decode(src []byte, req *Request) (n int, err error) {
	*req = Request{}
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
	line := trimCR(src[:end])
	if last := len(line) - 1; last >= 0 && line[last] == ':' {
		req.ItemsFollow = true
		line = line[:last]
	}
	words := line
	for len(words) > 0 && words[len(words)-1] == ' ' {
		words = words[:len(words)-1]
	}
	if len(words) == 0 && len(line) > 0 {
		return 0, errOnlySpaces
	}
	if isForeign(words) {
		return 0, errForeign
	}
	op, args := splitLine(words)
	req.Op = op
	if op == 0 {
		command, _ := cutWord(words)
		if beginsForeign(src[0]) || isForeignCommand(command) {
			return 0, errForeign
		}
		req.Word = command
		return n, errUnknownCommand
	}
	if refused := parseArgs(args, req); refused != nil {
		if refused.Fatal {
			return 0, refused
		}
		return n, refused
	}
	return n, nil
}

// The commands of most requests with the space behind them, as the four bytes of a little-endian number.
const (
	wordGet = 'g' | 'e'<<8 | 't'<<16 | ' '<<24
	wordPut = 'p' | 'u'<<8 | 't'<<16 | ' '<<24
)

// splitLine returns the command of a request line, or 0 for an unknown one, and the bytes after it and its space. The
// line does not end in a space.
func splitLine(line []byte) (op Op, args []byte) {
	if len(line) > 4 {
		// Bit 5 makes upper case letters lower case, and makes no other byte a letter.
		switch binary.LittleEndian.Uint32(line) | 0x202020 {
		case wordGet:
			return OpGet, line[4:]
		case wordPut:
			return OpPut, line[4:]
		}
	}
	word, args := cutWord(line)
	return lookupOp(word), args
}

// trimCR returns line without the carriage return at its end, if it has one.
func trimCR(line []byte) []byte {
	if last := len(line) - 1; last >= 0 && line[last] == '\r' {
		return line[:last]
	}
	return line
}
