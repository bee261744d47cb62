package text

import (
	"bytes"
	"encoding/binary"
)

// Bytes of other protocols come to this port by mistake, or because somebody makes a browser or another
// server send them. As an unknown command costs one reply only, commands that somebody has hidden in
// them would be run. So a line that no client of this protocol sends ends the connection.

// beginsForeign reports whether the first byte of a request is one that none begins with. That is a control character,
// as in TLS, or the magic number of memcache's binary protocol. The rest need not come.
func beginsForeign(first byte) bool {
	return isControl(first) && first != '\n' || 0x80 <= first && first < 0xa0
}

// isForeign reports whether a line, without its end, is none of this protocol. Such a line holds control characters
// that no name has here, or is the first line of an HTTP request or of one like it.
func isForeign(line []byte) bool {
	if isPlain(line) {
		return false
	}
	for _, c := range line {
		if c-' ' >= 0x7f-' ' && isControl(c) { // few bytes need the second look
			return true
		}
	}
	if bytes.IndexByte(line, '/') < 0 {
		return false
	}
	last := line[bytes.LastIndexByte(line, ' ')+1:]
	for _, version := range []string{"HTTP/", "RTSP/", "SIP/"} {
		number, found := bytes.CutPrefix(last, []byte(version))
		if found && len(last) < len(line) && len(number) > 0 && '0' <= number[0] && number[0] <= '9' {
			return true
		}
	}
	return false
}

// isPlain reports whether a line of eight bytes or more holds nothing but printed ASCII, and no slash. Most lines are
// like that.
func isPlain(line []byte) bool {
	if len(line) < 8 {
		return false
	}
	found := notPlain(binary.LittleEndian.Uint64(line[len(line)-8:]))
	for ; len(line) > 8; line = line[8:] {
		found |= notPlain(binary.LittleEndian.Uint64(line))
	}
	return found == 0
}

// notPlain is zero if each of eight bytes is from ' ' to '~' and none is a slash. If all are below 0x80, no sum carries
// into the next byte. Nothing is borrowed from the lowest byte that is not plain, so it is found.
func notPlain(v uint64) uint64 {
	const each, high = 0x0101010101010101, 0x8080808080808080
	return (v | (v + each) | (v - each*' ') | ((v ^ each*'/') - each)) & high
}

// isForeignCommand reports whether an unknown command is one of another protocol. It then begins like no word, as in
// RESP, is the greeting of SSH, or is a command of memcache that an item follows.
func isForeignCommand(word []byte) bool {
	if len(word) == 0 {
		return false
	}
	if bytes.IndexByte([]byte("*$+-{}[]()<>\"'!#%&=@|~"), word[0]) >= 0 || bytes.HasPrefix(word, []byte("SSH-")) {
		return true
	}
	for _, store := range []string{"set", "add", "replace", "append", "prepend", "cas"} {
		if bytes.EqualFold(word, []byte(store)) {
			return true
		}
	}
	return false
}

// isControl reports whether c is a control character other than those that names may hold: tabs and
// carriage returns.
func isControl(c byte) bool { return c < ' ' && c != '\t' && c != '\r' || c == 0x7f }
