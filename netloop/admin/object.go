package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// object is a map with its members in the order in which JSON has them. Values are string, bool,
// int64, float64, []string, distribution, buckets or object.
type object []member

type member struct {
	key   string
	value any
}

// writeJSON writes v and a line feed. A string becomes {"response":"…"}.
func writeJSON(w io.Writer, v any) error {
	switch a := v.(type) {
	case string:
		v = object{{"response", a}}
	case verdict:
		v = append(object{{"response", a.word}}, a.details...)
	}
	if err := appendJSON(w, v); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func appendJSON(w io.Writer, v any) (err error) {
	text := func(s string) {
		if err == nil {
			_, err = io.WriteString(w, s)
		}
	}
	switch v := v.(type) {
	case object:
		text("{")
		for i, m := range v {
			if i > 0 {
				text(",")
			}
			text(quoted(m.key) + ":")
			if err == nil {
				err = appendJSON(w, m.value)
			}
		}
		text("}")
	case []string:
		text("[")
		for i, s := range v {
			if i > 0 {
				text(",")
			}
			text(quoted(s))
		}
		text("]")
	case string:
		text(quoted(v))
	case distribution:
		err = appendJSON(w, v.summary())
	case buckets:
		text(v.json())
	default:
		text(number(v))
	}
	return err
}

// quoted is s in JSON.
func quoted(s string) string {
	if isPlain(s) {
		return `"` + s + `"`
	}
	b, err := json.Marshal(s)
	if err != nil { // cannot be: any string can be written
		panic(fmt.Sprintf("admin: quote %q: %v", s, err))
	}
	return string(b)
}

// isPlain reports whether s stands for itself in JSON, also by the rules of encoding/json, which
// spares HTML its own characters. Most names of queues and metrics do.
func isPlain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c >= 0x7f, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// number is a number or a bool, in JSON and in text; a whole number has no decimal point.
func number(v any) string {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	panic(fmt.Sprintf("admin: a %T in an answer", v))
}

// writeText writes v as lines: a string as one, an object as `key: value`, keys sorted, what is
// inside an object indented.
func writeText(w io.Writer, v any) error {
	switch a := v.(type) {
	case string:
		_, err := io.WriteString(w, strings.TrimSuffix(a, "\n")+"\n")
		return err
	case verdict:
		if _, err := io.WriteString(w, a.word+"\n"); err != nil {
			return err
		}
		return writeLines(w, "", a.details)
	}
	return writeLines(w, "", v.(object))
}

// sorted returns o with its keys in order.
func sorted(o object) object {
	o = slices.Clone(o)
	slices.SortStableFunc(o, func(a, b member) int { return cmp.Compare(a.key, b.key) })
	return o
}

func writeLines(w io.Writer, indent string, o object) error {
	for _, m := range sorted(o) {
		line := indent + oneLine(m.key) + ":"
		switch v := m.value.(type) {
		case object:
			if _, err := io.WriteString(w, line+"\n"); err != nil {
				return err
			}
			if err := writeLines(w, indent+"  ", v); err != nil {
				return err
			}
			continue
		case []string:
			line += " " + oneLine(strings.Join(v, ", "))
		case string:
			line += " " + oneLine(v)
		case distribution:
			line += " " + v.text()
		case buckets:
			line += " " + v.text()
		default:
			line += " " + number(v)
		}
		if _, err := io.WriteString(w, line+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// oneLine is s without anything that would end the line; names of queues may hold any character.
func oneLine(s string) string {
	if !strings.ContainsFunc(s, isControl) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return '?'
		}
		return r
	}, s)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' }
