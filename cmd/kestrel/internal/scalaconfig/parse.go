package scalaconfig

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// assignment is a line such as `default.maxAge = 30.seconds`.
type assignment struct {
	line  int
	path  string // default.maxAge
	value expression
}

// expressionKind says what an expression is.
type expressionKind uint8

const (
	exprBad     expressionKind = iota // not understood; text says why
	exprNumber                        // number
	exprMeasure                       // number of a unit, text
	exprString                        // text
	exprName                          // text, such as None, true or Level.INFO
	exprList                          // elements
	exprNew                           // object of the class text, with a body
)

// expression is what is assigned.
type expression struct {
	kind     expressionKind
	line     int
	text     string
	number   int64
	elements []expression
	body     []assignment
}

// maxNesting is how deep objects and parentheses may be nested.
const maxNesting = 50

// scalaParser reads the tokens of a file.
type scalaParser struct {
	tokens   []scalaToken
	depth    int
	unclosed bool                                       // a brace is, and that was reported
	report   func(line int, format string, args ...any) // what is not understood
}

// parseScala returns the assignments in `new KestrelConfig { … }`, and reports what it does not
// understand.
func parseScala(src string, report func(line int, format string, args ...any)) []assignment {
	p := &scalaParser{tokens: tokensOf(src), report: report}
	for p.peek().kind == tokenName && p.peek().text == "import" {
		p.skipLine(false)
	}
	start := p.peek()
	e := p.primary()
	if e.kind != exprNew || className(e.text) != "KestrelConfig" {
		report(start.line, "want 'new KestrelConfig { … }', as in the files of Kestrel 2.x")
		return nil
	}
	if rest := p.peek(); rest.kind != tokenEnd {
		report(rest.line, "only one 'new KestrelConfig { … }' is read")
	}
	return e.body
}

// className is the last part of a name.
func className(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

func (p *scalaParser) peek() scalaToken { return p.tokens[0] }

func (p *scalaParser) take() scalaToken {
	t := p.tokens[0]
	if t.kind != tokenEnd {
		p.tokens = p.tokens[1:]
	}
	return t
}

// takeSign consumes the sign if it is next.
func (p *scalaParser) takeSign(sign string) bool {
	if !p.peek().is(sign) {
		return false
	}
	p.take()
	return true
}

// skipLine consumes the rest of a statement, up to the end of the line that closes what it opens. If nothing of the
// statement is consumed yet, it consumes all of it.
func (p *scalaParser) skipLine(begun bool) {
	for depth := 0; ; begun = true {
		t := p.peek()
		closes := t.is("}") || t.is(")") || t.is("]")
		switch {
		case t.kind == tokenEnd, depth == 0 && begun && (t.newLine || t.is(";")):
			return
		case depth == 0 && (t.is("}") || t.is(")")):
			return
		case t.is("{"), t.is("("), t.is("["):
			depth++
		case closes && depth > 0:
			depth--
		}
		p.take()
	}
}

// body reads assignments up to the closing brace.
func (p *scalaParser) body() (all []assignment) {
	for {
		t := p.peek()
		switch {
		case t.is("}"):
			p.take()
			return all
		case t.is(";"), t.is(")"):
			p.take()
			continue
		case t.kind == tokenEnd:
			if !p.unclosed {
				p.report(t.line, "a closing brace is missing")
			}
			p.unclosed = true
			return all
		}
		left := len(p.tokens)
		if a, ok := p.assignment(); ok {
			all = append(all, a)
			continue
		}
		p.report(t.line, "%s", notUnderstood(t))
		p.skipLine(len(p.tokens) < left)
	}
}

func notUnderstood(t scalaToken) string {
	if t.kind == tokenBad {
		return t.text
	}
	return fmt.Sprintf("not understood: %.40q", t.text)
}

// assignment reads a statement; ok is false if it is another one, of which part may be consumed.
func (p *scalaParser) assignment() (a assignment, ok bool) {
	keywords := []string{
		"val", "var", "def", "lazy", "override", "if", "for", "while", "import", "new", "class",
		"object", "private", "case", "try", "throw",
	}
	t := p.peek()
	if t.kind != tokenName || slices.Contains(keywords, t.text) {
		return a, false
	}
	a.line = t.line
	a.path = p.path()
	if !p.takeSign("=") {
		return a, false
	}
	a.value = p.list()
	if t := p.peek(); !t.newLine && !t.is(";") && !t.is("}") && t.kind != tokenEnd {
		if a.value.kind != exprBad { // else the first reason is the better one
			a.value = badExpression(t)
		}
		p.skipLine(true)
	}
	return a, true
}

// path reads names with dots between them; the first of them is next.
func (p *scalaParser) path() string {
	name := p.take().text
	for p.peek().is(".") && len(p.tokens) > 1 && p.tokens[1].kind == tokenName {
		p.take()
		name += "." + p.take().text
	}
	return name
}

func badExpression(t scalaToken) expression {
	return expression{kind: exprBad, line: t.line, text: notUnderstood(t)}
}

// list reads an expression that may be a list written `a :: b :: Nil`.
func (p *scalaParser) list() expression {
	e := p.sum()
	if !p.peek().is("::") {
		return e
	}
	list := expression{kind: exprList, line: e.line, elements: []expression{e}}
	for p.takeSign("::") {
		list.elements = append(list.elements, p.sum())
	}
	switch last := list.elements[len(list.elements)-1]; {
	case last.kind == exprName && last.text == "Nil":
		list.elements = list.elements[:len(list.elements)-1]
	case last.kind == exprList:
		list.elements = append(list.elements[:len(list.elements)-1], last.elements...)
	}
	return list
}

// sum reads numbers that are multiplied and added, or one other expression.
func (p *scalaParser) sum() expression {
	e := p.product()
	for p.peek().is("+") || p.peek().is("-") {
		sign, b := p.take(), p.product()
		if sign.text == "-" {
			b.number = -b.number
		}
		sum := e.number + b.number
		overflows := (sum > e.number) != (b.number > 0) && b.number != 0
		e = arithmetic(sign, e, b, sum, overflows)
	}
	return e
}

func (p *scalaParser) product() expression {
	e := p.postfix()
	for p.peek().is("*") {
		sign, b := p.take(), p.postfix()
		product := e.number * b.number
		overflows := e.number != 0 && (product/e.number != b.number || e.number == -1)
		e = arithmetic(sign, e, b, product, overflows)
	}
	return e
}

// arithmetic is the number that a and b make, or that many of the unit of one of them.
func arithmetic(sign scalaToken, a, b expression, result int64, overflows bool) expression {
	bad := badExpression(sign)
	sameUnit := a.kind == exprMeasure && b.kind == exprMeasure && a.text == b.text && sign.text != "*"
	scaled := a.kind != b.kind && sign.text == "*" &&
		(a.kind == exprMeasure || a.kind == exprNumber) &&
		(b.kind == exprMeasure || b.kind == exprNumber)
	switch {
	case overflows:
		bad.text = "the number is too large"
		return bad
	case a.kind == exprNumber && b.kind == exprNumber, sameUnit, scaled && a.kind == exprMeasure:
		a.number = result
		return a
	case scaled:
		b.number = result
		return b
	}
	return bad
}

// postfix reads a number with its unit, or another expression.
func (p *scalaParser) postfix() expression {
	negative := p.takeSign("-")
	e := p.primary()
	if negative && e.kind != exprNumber {
		return badExpression(scalaToken{line: e.line, text: "-"})
	}
	if negative {
		e.number = -e.number
	}
	if e.kind == exprString && p.peek().is(".") && len(p.tokens) > 1 && p.tokens[1].text == "r" {
		p.take() // "…".r is a regular expression
		p.take()
	}
	if e.kind != exprNumber {
		return e
	}
	dotted := p.peek().is(".") && len(p.tokens) > 1 && p.tokens[1].kind == tokenName
	spaced := p.peek().kind == tokenName && !p.peek().newLine
	if !dotted && !spaced {
		return e
	}
	if dotted {
		p.take()
	}
	unit := p.take()
	if unit.text == "toLong" || unit.text == "toInt" {
		return e
	}
	e.kind, e.text = exprMeasure, unit.text
	return e
}

// primary reads an expression without operators.
func (p *scalaParser) primary() expression {
	if p.depth++; p.depth > maxNesting {
		p.depth--
		t := p.take()
		return expression{kind: exprBad, line: t.line, text: "nested too deeply"}
	}
	defer func() { p.depth-- }()
	t := p.peek()
	switch {
	case t.kind == tokenNumber:
		p.take()
		return numberOf(t)
	case t.kind == tokenString:
		p.take()
		return expression{kind: exprString, line: t.line, text: t.text}
	case t.is("("):
		list := p.arguments()
		for _, e := range list {
			if e.kind == exprBad || len(list) == 1 {
				return e
			}
		}
		return badExpression(t)
	case t.kind != tokenName:
		return badExpression(p.take())
	case t.text == "new":
		return p.object()
	}
	return p.name()
}

func numberOf(t scalaToken) expression {
	digits := strings.ReplaceAll(strings.TrimRight(t.text, "lL"), "_", "")
	n, err := strconv.ParseInt(digits, 0, 64)
	if err != nil || len(digits) > 1 && digits[0] == '0' && digits[1] != 'x' {
		return badExpression(t)
	}
	return expression{kind: exprNumber, line: t.line, number: n}
}

// object reads `new Class { … }`; new is next.
func (p *scalaParser) object() expression {
	e := expression{kind: exprNew, line: p.take().line}
	if p.peek().kind != tokenName {
		return badExpression(p.take())
	}
	e.text = p.path()
	if p.peek().is("(") && len(p.arguments()) > 0 {
		return expression{kind: exprBad, line: e.line, text: "not understood: arguments of " + e.text}
	}
	if p.takeSign("{") {
		e.body = p.body()
	}
	return e
}

// name reads a name, and what it is applied to: Some(x) is x, and List(x, y) is a list.
func (p *scalaParser) name() expression {
	e := expression{kind: exprName, line: p.peek().line}
	e.text = p.path()
	if !p.peek().is("(") || p.peek().newLine {
		return e
	}
	arguments := p.arguments()
	switch className(e.text) {
	case "Some":
		if len(arguments) == 1 {
			return arguments[0]
		}
	case "List", "Seq", "Set", "Array", "Vector":
		return expression{kind: exprList, line: e.line, elements: arguments}
	}
	text := fmt.Sprintf("not understood: %.40s(…)", e.text)
	return expression{kind: exprBad, line: e.line, text: text}
}

// arguments reads expressions in parentheses; the opening one is next.
func (p *scalaParser) arguments() (list []expression) {
	p.take()
	for !p.takeSign(")") {
		if t := p.peek(); t.kind == tokenEnd || t.is("}") {
			return append(list, badExpression(t))
		}
		list = append(list, p.list())
		if t := p.peek(); !t.is(")") && !p.takeSign(",") {
			list = append(list, badExpression(t))
			p.take()
		}
	}
	return list
}
