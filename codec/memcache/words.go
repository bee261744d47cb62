package memcache

import (
	"bytes"
	"iter"
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
