package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// Limits of a configuration file. The TOML parser keeps the whole path of every key, so paths are
// bounded as well as the file.
const (
	MaxSize     = 1 << 20 // bytes
	maxKeyDepth = 16      // parts of a key's path, and brackets around a value
	maxKeySize  = 512     // bytes of a key's path
)

// keyNode is a key of a TOML text: where it is, and the keys in its table. The root is the whole
// text.
type keyNode struct {
	line     int // from 1; 0 for the root
	header   bool
	size     int // bytes of the path
	depth    int // parts of the path
	children map[string]*keyNode
	tables   int // so many times it is [[written so]]; its children are then called 1, 2 and so on
}

// lineOf returns the line of the key at path or, if that is not known, of the table that it would be in. It is 0 if
// that is the top of the file.
func (n *keyNode) lineOf(path ...string) int {
	line := n.line
	for _, part := range path {
		if n = n.children[part]; n == nil {
			break
		}
		line = n.line
	}
	return line
}

// child returns the key called name in the table n.
func (n *keyNode) child(name string, line int) *keyNode {
	c := n.children[name]
	if c == nil {
		c = &keyNode{line: line, size: n.size + len(name), depth: n.depth + 1}
		if n.children == nil {
			n.children = make(map[string]*keyNode)
		}
		n.children[name] = c
	}
	return c
}

// keyScanner finds the keys of a TOML text: the TOML parser does not say where they are. It follows
// the grammar closely enough to find every key of a valid text; of any other it finds some.
type keyScanner struct {
	src    string
	off    int // of the next byte
	line   int // that it is in, from 1
	nested int // brackets that are open around it

	excess     string // which limit is exceeded; "" for none
	excessLine int
}

// findKeys returns the keys of a TOML text. It returns a problem if the text exceeds a limit.
func findKeys(src string) (*keyNode, *Problem) {
	root := &keyNode{}
	if len(src) > MaxSize {
		return root, &Problem{Text: fmt.Sprintf("larger than %s", FormatSize(MaxSize))}
	}
	s := &keyScanner{src: strings.TrimPrefix(src, "\ufeff"), line: 1}
	table := root
	for s.space(); s.off < len(s.src) && s.excess == ""; s.space() {
		switch {
		case s.take("[["):
			table = s.key(root)
			table.tables++
			table = table.child(strconv.Itoa(table.tables), s.line)
			table.header = true
		case s.take("["):
			table = s.key(root)
			if !table.header {
				table.header, table.line = true, s.line
			}
		default:
			s.pair(table)
		}
		s.toLineEnd()
	}
	if s.excess != "" {
		return root, &Problem{Line: s.excessLine, Text: s.excess}
	}
	return root, nil
}

// pair reads `key = value` into table.
func (s *keyScanner) pair(table *keyNode) {
	key := s.key(table)
	s.blanks()
	if s.take("=") {
		s.blanks()
		s.value(key)
	}
}

// key reads a key, dotted or not, in table.
func (s *keyScanner) key(table *keyNode) *keyNode {
	for {
		s.blanks()
		name, ok := s.part()
		if !ok {
			return table
		}
		table = table.child(name, s.line)
		if table.depth > maxKeyDepth {
			s.exceed(fmt.Sprintf("key of more than %d parts", maxKeyDepth))
		}
		if table.size > maxKeySize {
			s.exceed(fmt.Sprintf("key longer than %d bytes", maxKeySize))
		}
		s.blanks()
		if s.excess != "" || !s.take(".") {
			return table
		}
	}
}

// part reads one part of a key.
func (s *keyScanner) part() (string, bool) {
	if c := s.peek(); c == '"' || c == '\'' {
		return unquoteKey(s.quoted(c)), true
	}
	end := s.off
	for end < len(s.src) && !strings.ContainsRune(" \t\r\n.=,#[]{}\"'", rune(s.src[end])) {
		end++
	}
	name := s.src[s.off:end]
	s.advance(len(name))
	return name, name != ""
}

// unquoteKey returns what a quoted key stands for.
func unquoteKey(quoted string) string {
	if !strings.Contains(quoted, `\`) || quoted[0] == '\'' {
		return strings.Trim(quoted, quoted[:1])
	}
	var v struct{ Key string }
	if _, err := toml.Decode("Key = "+quoted, &v); err != nil {
		return quoted
	}
	return v.Key
}

// value reads over a value, and the keys in it, which are below the key at.
func (s *keyScanner) value(at *keyNode) {
	c := s.peek()
	switch {
	case s.take(`"""`):
		s.multiline('"')
	case s.take("'''"):
		s.multiline('\'')
	case c == '"', c == '\'':
		s.quoted(c)
	case s.take("["):
		s.elements(']', func() { s.value(at) })
	case s.take("{"):
		s.elements('}', func() { s.pair(at) })
	default:
		if n := strings.IndexAny(s.src[s.off:], ",]}#\r\n"); n >= 0 {
			s.advance(n)
		} else {
			s.advance(len(s.src) - s.off)
		}
	}
}

// elements reads what stands between brackets, with commas in between, up to the closing one.
func (s *keyScanner) elements(closing byte, element func()) {
	if s.nested++; s.nested > maxKeyDepth {
		s.exceed(fmt.Sprintf("value nested more than %d deep", maxKeyDepth))
	}
	for s.excess == "" {
		s.space()
		if s.off == len(s.src) || s.take(string(closing)) {
			break
		}
		before := s.off
		element()
		s.space()
		if !s.take(",") && s.off == before {
			s.advance(1) // not TOML
		}
	}
	s.nested--
}

// quoted reads a string of one line, and returns it with its quotes.
func (s *keyScanner) quoted(quote byte) string {
	start := s.off
	s.advance(1)
	for c := s.peek(); s.off < len(s.src) && c != '\n'; c = s.peek() {
		if c == '\\' && quote == '"' {
			s.advance(1)
		}
		s.advance(1)
		if c == quote {
			break
		}
	}
	return s.src[start:s.off]
}

// multiline reads a string of many lines, behind its opening quotes.
func (s *keyScanner) multiline(quote byte) {
	closing := strings.Repeat(string(quote), 3)
	for s.off < len(s.src) {
		switch {
		case s.take(closing):
			for range 2 { // of up to five quotes, the last three close
				s.take(string(quote))
			}
			return
		case quote == '"' && s.peek() == '\\':
			s.advance(2)
		default:
			s.advance(1)
		}
	}
}

// exceed notes a limit that the text exceeds.
func (s *keyScanner) exceed(what string) {
	if s.excess == "" {
		s.excess, s.excessLine = what, s.line
	}
}

func (s *keyScanner) peek() byte {
	if s.off == len(s.src) {
		return 0
	}
	return s.src[s.off]
}

// take reads prefix, if it is next.
func (s *keyScanner) take(prefix string) bool {
	if !strings.HasPrefix(s.src[s.off:], prefix) {
		return false
	}
	s.advance(len(prefix))
	return true
}

func (s *keyScanner) blanks() { s.skip(" \t") }

// space reads over blanks, line ends and comments.
func (s *keyScanner) space() {
	for s.skip(" \t\r\n"); s.peek() == '#'; s.skip(" \t\r\n") {
		s.toLineEnd()
	}
}

func (s *keyScanner) skip(chars string) {
	rest := strings.TrimLeft(s.src[s.off:], chars)
	s.advance(len(s.src) - s.off - len(rest))
}

// toLineEnd reads up to, but not over, the end of the line.
func (s *keyScanner) toLineEnd() {
	n := strings.IndexAny(s.src[s.off:], "\r\n")
	if n < 0 {
		n = len(s.src) - s.off
	}
	s.advance(n)
}

// advance reads n bytes, or as many as there are.
func (s *keyScanner) advance(n int) {
	n = min(n, len(s.src)-s.off)
	s.line += strings.Count(s.src[s.off:s.off+n], "\n")
	s.off += n
}
