package netloop

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

const protocolDoc = "../docs/PROTOCOL.md"

// docPart is one protocol's part of docs/PROTOCOL.md.
type docPart struct {
	protocol string
	client   byte   // who speaks where an example does not say
	lineEnd  string // of what it says, as transcripts write it; empty: lines are Thrift frames in hex
}

var docParts = []docPart{
	{"memcache", 'A', `\r\n`},
	{"text", 'T', `\n`},
	{"Thrift", 'H', ""},
}

// TestProtocolDocExamples plays every example of docs/PROTOCOL.md on a server of its own. An example is a fenced block
// that begins with what a client or the server sends, or with a remark.
func TestProtocolDocExamples(t *testing.T) {
	played := map[string]int{}
	for _, b := range readDocBlocks(t) {
		if !regexp.MustCompile(`^(\(|[A-Z]?[<>])`).MatchString(b.lines[0].text) {
			continue // a grammar
		}
		tr := transcript{name: b.section, line: b.lines[0].line}
		for _, line := range b.lines {
			text, err := b.part.step(line.text)
			if err != nil {
				t.Fatalf("%s:%d: %v", protocolDoc, line.line, err)
			}
			if text != "" {
				tr.steps = append(tr.steps, step{line.line, text})
			}
		}
		played[b.part.protocol]++
		for _, size := range []int{1 << 20, 1} {
			t.Run(fmt.Sprintf("line %d/%d", tr.line, size), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { tr.run(t, size, false) })
			})
		}
	}
	for protocol, least := range map[string]int{"memcache": 25, "text": 10, "Thrift": 6} {
		if played[protocol] < least {
			t.Errorf("%d examples of the %s protocol were found, want %d", played[protocol], protocol, least)
		}
	}
}

// docBlock is a fenced block.
type docBlock struct {
	part    docPart
	section string
	lines   []step
}

func readDoc(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(protocolDoc)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(b), "\n")
}

// docPartOf returns the part that a heading begins.
func docPartOf(heading string) (docPart, bool) {
	i := slices.IndexFunc(docParts, func(p docPart) bool {
		return strings.HasPrefix(heading, "# Part") &&
			strings.HasSuffix(heading, ": "+p.protocol+" protocol")
	})
	if i < 0 {
		return docPart{}, false
	}
	return docParts[i], true
}

func readDocBlocks(t *testing.T) []docBlock {
	t.Helper()
	var (
		all    []docBlock
		now    = docBlock{part: docParts[0]}
		inside bool
	)
	for i, line := range readDoc(t) {
		switch {
		case strings.HasPrefix(line, "```"):
			if inside && len(now.lines) > 0 {
				all = append(all, now)
			}
			inside, now.lines = !inside, nil
		case inside:
			now.lines = append(now.lines, step{i + 1, line})
		case strings.HasPrefix(line, "#"):
			now.section = line
			if part, ok := docPartOf(line); ok {
				now.part = part
			}
		}
	}
	return all
}

// docRemarks are the remarks of examples, and the steps they stand for; X is who speaks.
var docRemarks = []struct{ remark, step string }{
	{`\(nothing for (\d+) ms\)`, `X. $1`},
	{`\(nothing on ([A-Z]) for (\d+) ms\)`, `${1}. $2`},
	{`\((\d+) ms pass\)`, `wait $1`},
	{`\(closed\)`, `X!`},
	{`\(([A-Z]) is closed\)`, `${1}!`},
	{`\(([A-Z]) closes\)`, `${1}~`},
	{`\(kill -9, and a new start\)`, `kill`},
	{`\(on a new server\)`, ``},
	{`\(alias (\w+): ([\w, +]+)\)`, `cfg alias ${1} -> $2`},
	{`\((queue \w+: )?(\w+) = ([\w.-]+)\)`, `cfg ${1}${2}=$3`},
	{`\((queue \w+: )?(\w+) = ([\w.-]+), (\w+) = ([\w.-]+)\)`, `cfg ${1}${2}=${3}, ${4}=$5`},
}

// step turns a line of an example into one of a transcript; one that asks for nothing becomes empty.
func (p docPart) step(line string) (string, error) {
	for _, r := range docRemarks {
		re := regexp.MustCompile("^" + r.remark + "$")
		if re.MatchString(line) {
			return re.ReplaceAllString(line, strings.Replace(r.step, "X", string(p.client), 1)), nil
		}
	}
	who, rest := p.client, line
	if line != "" && line[0] >= 'A' && line[0] <= 'Z' {
		who, rest = line[0], line[1:]
	}
	if rest == "" || rest[0] != '<' && rest[0] != '>' {
		return "", fmt.Errorf("neither a remark nor what somebody sends: %q", line)
	}
	direction, said := rest[:1], strings.TrimPrefix(rest[1:], " ")
	end := p.lineEnd
	switch clientProtocol(who) {
	case memcacheProtocol{}:
		end = `\r\n`
	case textProtocol{}:
		end = `\n`
	case thriftProtocol{}:
		end = ""
		said, _, _ = strings.Cut(said, "  ") // what follows explains the bytes
	}
	return string(who) + direction + " " + said + end, nil
}

// TestProtocolDocBadInput compares the tables of bad input in docs/PROTOCOL.md with what
// TestHostileInput sends: every input of one is in the other, with the same answer.
func TestProtocolDocBadInput(t *testing.T) {
	tested := map[string][]hostileInput{
		"memcache": hostileMemcache, "text": hostileText, "Thrift": hostileThrift,
	}
	rows := readBadInput(t)
	for protocol, inputs := range tested {
		left := rows[protocol]
		for _, in := range inputs {
			i := slices.IndexFunc(left, func(r badInput) bool { return r.in == in.in })
			if i < 0 {
				t.Errorf("%s has no row for %s, %q (%.80q)", protocolDoc, protocol, in.name, in.in)
				continue
			}
			if row := left[i]; row.answer != answerInDoc(in) || row.closed != in.close {
				t.Errorf("%s:%d: %s, %q: the document has %q, closed %t; it is %q, closed %t", protocolDoc,
					row.line, protocol, in.name, row.answer, row.closed, answerInDoc(in), in.close)
			}
			left = slices.Delete(left, i, i+1)
		}
		for _, row := range left {
			t.Errorf("%s:%d: no test sends %.80q", protocolDoc, row.line, row.in)
		}
	}
}

// badInput is a row of a table of bad input.
type badInput struct {
	line       int
	in, answer string
	closed     bool
}

// answerInDoc is how the document writes an answer: in full, but for Thrift's exceptions.
func answerInDoc(in hostileInput) string {
	if _, kind, ok := strings.Cut(in.out, "\x08\x00\x02\x00\x00\x00"); ok {
		return fmt.Sprintf("exception of type %d", kind[0])
	}
	return in.out
}

func readBadInput(t *testing.T) map[string][]badInput {
	t.Helper()
	var (
		rows   = map[string][]badInput{}
		part   docPart
		inside bool // a section on bad input
		span   = regexp.MustCompile("`([^`]*)`")
	)
	for i, line := range readDoc(t) {
		if strings.HasPrefix(line, "#") {
			if p, ok := docPartOf(line); ok {
				part = p
			}
			inside = strings.HasSuffix(strings.ToLower(line), "bad input")
			continue
		}
		cells := strings.Split(line, " | ")
		if !inside || len(cells) != 3 || !strings.HasPrefix(line, "| `") ||
			strings.Contains(cells[0], ", then") { // TestOversizedItem's
			continue
		}
		row := badInput{line: i + 1, closed: strings.HasPrefix(cells[2], "yes")}
		row.in = expandInput(t, span.FindStringSubmatch(cells[0])[1])
		switch {
		case strings.HasPrefix(cells[1], "exception"):
			row.answer = cells[1]
		default:
			for _, reply := range span.FindAllStringSubmatch(cells[1], -1) {
				row.answer += unescape(reply[1] + part.lineEnd)
			}
		}
		rows[part.protocol] = append(rows[part.protocol], row)
	}
	return rows
}

// expandInput returns the bytes that the document writes with escapes and repeats: (x)×3 is xxx.
func expandInput(t *testing.T, in string) string {
	repeat := regexp.MustCompile(`\(([^()]*)\)×(\d+)`)
	return unescape(repeat.ReplaceAllStringFunc(in, func(s string) string {
		m := repeat.FindStringSubmatch(s)
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Repeat(m[1], n)
	}))
}
