package scalaconfig

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The configuration of the original is a program. What follows reads the part of its language that
// such files are written in, and knows the line of whatever else it comes across.

// tokenKind says what a token is.
type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenNumber // digits, with L behind them for a long
	tokenString
	tokenSign // one character, or ::
	tokenBad  // text says what is wrong
)

// scalaToken is a word of the source.
type scalaToken struct {
	kind    tokenKind
	text    string // of a string, what it stands for
	line    int    // from 1
	newLine bool   // it is the first of its line
}

func (t scalaToken) is(sign string) bool { return t.kind == tokenSign && t.text == sign }

// lexer takes a source apart.
type lexer struct {
	rest string
	line int
}

// tokensOf returns the tokens of src; the last one is a tokenEnd.
func tokensOf(src string) []scalaToken {
	l := &lexer{rest: src, line: 1}
	var all []scalaToken
	last := 0
	for {
		unended := l.skipBlanks()
		t := scalaToken{line: l.line}
		switch {
		case unended > 0:
			t = scalaToken{kind: tokenBad, text: "the comment does not end", line: unended}
		case l.rest != "":
			l.next(&t)
		}
		t.newLine = t.line != last
		last = l.line // a string may have several
		all = append(all, t)
		if t.kind == tokenEnd {
			return all
		}
	}
}

// take consumes n bytes.
func (l *lexer) take(n int) string {
	text := l.rest[:n]
	l.rest = l.rest[n:]
	l.line += strings.Count(text, "\n")
	return text
}

// skipBlanks consumes white space and comments. It returns the line of a comment that does not end.
func (l *lexer) skipBlanks() (unended int) {
	for {
		switch {
		case strings.HasPrefix(l.rest, "//"):
			end := strings.IndexByte(l.rest, '\n')
			if end < 0 {
				end = len(l.rest)
			}
			l.take(end)
		case strings.HasPrefix(l.rest, "/*"):
			if start := l.line; !l.skipComment() {
				return start
			}
		default:
			blanks := len(l.rest) - len(strings.TrimLeftFunc(l.rest, unicode.IsSpace))
			if blanks == 0 {
				return 0
			}
			l.take(blanks)
		}
	}
}

// skipComment consumes a comment, and those in it.
func (l *lexer) skipComment() bool {
	for depth := 0; ; {
		switch {
		case l.rest == "":
			return false
		case strings.HasPrefix(l.rest, "/*"):
			l.take(2)
			depth++
		case strings.HasPrefix(l.rest, "*/"):
			l.take(2)
			if depth--; depth == 0 {
				return true
			}
		default:
			l.take(1)
		}
	}
}

// next consumes a token, of which there is one.
func (l *lexer) next(t *scalaToken) {
	first, size := utf8.DecodeRuneInString(l.rest)
	isName := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	length := func(in func(rune) bool) int {
		return len(l.rest) - len(strings.TrimLeftFunc(l.rest, in))
	}
	switch {
	case first >= '0' && first <= '9':
		t.kind = tokenNumber
		t.text = l.take(length(func(r rune) bool { return r < utf8.RuneSelf && isName(r) }))
	case isName(first):
		t.kind, t.text = tokenName, l.take(length(isName))
	case first == '"':
		t.kind, t.text = l.text()
	case strings.HasPrefix(l.rest, "::"):
		t.kind, t.text = tokenSign, l.take(2)
	default:
		t.kind, t.text = tokenSign, l.take(size)
	}
}

// text consumes a string.
func (l *lexer) text() (tokenKind, string) {
	const triple = `"""`
	if strings.HasPrefix(l.rest, triple) {
		text, _, ok := strings.Cut(l.rest[len(triple):], triple)
		if !ok {
			l.take(len(l.rest))
			return tokenBad, "the string does not end"
		}
		l.take(len(text) + 2*len(triple))
		return tokenString, text
	}
	for i := 1; i < len(l.rest) && l.rest[i] != '\n'; i++ {
		switch l.rest[i] {
		case '\\':
			i++
		case '"':
			quoted := l.take(i + 1)
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return tokenBad, fmt.Sprintf("cannot read the string %.40s", quoted)
			}
			return tokenString, text
		}
	}
	l.take(1)
	return tokenBad, "the string does not end"
}
