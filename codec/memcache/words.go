package memcache

import (
	"bytes"
	"iter"
	"unicode/utf8"
)

// Words yields the words of Request.Args in order. Like all words of a request they are separated
// by single spaces, so a double space yields an empty word.
func Words(args []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest := args; len(rest) > 0; {
			var word []byte
			if word, rest = cutWord(rest); !yield(word) {
				return
			}
		}
	}
}

// cutWord returns the bytes of b before its first space and those after it. As a line's last word
// is never empty, rest is empty only if word was the last one.
func cutWord(b []byte) (word, rest []byte) {
	if i := bytes.IndexByte(b, ' '); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// scanName returns where the queue name at the start of b ends: before the first space or slash. It reports whether the
// name is ASCII.
func scanName(b []byte) (end int, ascii bool) {
	var all byte // every bit that one of them has
	for i, c := range b {
		if c == ' ' || c == '/' {
			return i, all < utf8.RuneSelf
		}
		all |= c
	}
	return len(b), all < utf8.RuneSelf
}

// endsNoReply reports whether the last of the words in b is noreply. b starts with the space that
// separates it from the words a command uses.
func endsNoReply(b []byte) bool {
	const word = " noreply"
	return len(b) >= len(word) && string(b[len(b)-len(word):]) == word
}

// onlyByte reports whether b consists of one or more c.
func onlyByte(b []byte, c byte) bool {
	for _, x := range b {
		if x != c {
			return false
		}
	}
	return len(b) > 0
}
