package memcache

// Bytes of other protocols come to this port by mistake, or because somebody makes a browser or another
// server send them. Most end the connection as an unknown command does.

// beginsForeign reports whether the first byte of a request is one that none begins with. That is a control character,
// as in TLS, or the magic number of memcache's binary protocol. The rest need not come.
func beginsForeign(first byte) bool {
	return first < ' ' && first != '\r' && first != '\n' || 0x7f <= first && first < 0xa0
}

// isHTTP reports whether a line is the first one of an HTTP request, whose method may be a command here.
func isHTTP(line []byte) bool {
	const version = " HTTP/1.1"
	at := len(line) - len(version)
	return at >= 0 && line[len(line)-2] == '.' && string(line[at:at+6]) == version[:6]
}
