package config

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/segment"
)

// Value is the place that the value of one option is kept in, and how it is written.
type Value interface {
	// Set takes a value as TOML has it: a string, int64, float64, bool, time.Time, []any or a
	// table. It returns errUnwanted for one that is not what want says, or an error that explains
	// itself, and then leaves the place as it was.
	Set(v any) error
	// String is the value as it is written in TOML.
	String() string
	// Kind is what may be written, in a word or a few: size, path, number|none.
	Kind() string
	// Want says what is to be written, with an example, to somebody who wrote something else.
	Want() string
}

// errUnwanted refuses a value that is not what its option wants.
var errUnwanted = errors.New("unwanted value")

// setString sets v to what s says on a command line, where nothing is quoted.
func setString(v Value, s string) error {
	err := v.Set(s)
	if err != nil && (s == "true" || s == "false") {
		return v.Set(s == "true")
	}
	if n, notNumber := strconv.ParseInt(s, 10, 64); err != nil && notNumber == nil {
		return v.Set(n)
	}
	return err
}

// describe says what was written in place of what was wanted.
func describe(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%.80q", v)
	case int64, float64, bool:
		return fmt.Sprint(v)
	case time.Time:
		return "a date or time"
	case []any:
		return "an array"
	case []map[string]any:
		return "an array of tables"
	}
	return "a table"
}

// countValue is a whole number within bounds.
type countValue[T int | int64] struct {
	p        *T
	min, max T
}

func (c countValue[T]) Set(v any) error {
	n, ok := v.(int64)
	if !ok || n < int64(c.min) || n > int64(c.max) {
		return errUnwanted
	}
	*c.p = T(n)
	return nil
}

func (c countValue[T]) String() string { return strconv.FormatInt(int64(*c.p), 10) }
func (c countValue[T]) Kind() string   { return "number" }
func (c countValue[T]) Want() string {
	return fmt.Sprintf("a whole number from %d to %d", c.min, c.max)
}

// KindBool is the kind of an option that is true or false.
const KindBool = "bool"

// boolValue is true or false.
type boolValue struct{ p *bool }

func (f boolValue) Set(v any) error {
	b, ok := v.(bool)
	if !ok {
		return errUnwanted
	}
	*f.p = b
	return nil
}

func (f boolValue) String() string { return strconv.FormatBool(*f.p) }
func (f boolValue) Kind() string   { return KindBool }
func (f boolValue) Want() string   { return "true or false" }

// textValue is any string but the empty one.
type textValue struct {
	p       *string
	name    string // what kind returns
	example string
}

func (t textValue) Set(v any) error {
	s, ok := v.(string)
	if !ok || s == "" || strings.ContainsRune(s, 0) {
		return errUnwanted
	}
	*t.p = s
	return nil
}

func (t textValue) String() string { return strconv.Quote(*t.p) }
func (t textValue) Kind() string   { return t.name }
func (t textValue) Want() string   { return fmt.Sprintf("a %s such as %q", t.name, t.example) }

// textsValue is a list of strings.
type textsValue struct{ p *[]string }

func (l textsValue) Set(v any) error {
	all, ok := v.([]any)
	if !ok {
		return errUnwanted
	}
	list := make([]string, 0, len(all))
	for _, v := range all {
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("want %s, have %s in it", l.Want(), describe(v))
		}
		list = append(list, s)
	}
	*l.p = list
	return nil
}

func (l textsValue) String() string {
	var quoted []string
	for _, s := range *l.p {
		quoted = append(quoted, strconv.Quote(s))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func (l textsValue) Kind() string { return "names" }
func (l textsValue) Want() string { return `a list of queue names such as ["work", "audit"]` }

// backoffValue is a list of delays, of which none is too long.
type backoffValue struct{ p *engine.Backoff }

func (b backoffValue) Set(v any) error {
	all, ok := v.([]any)
	if !ok || len(all) == 0 || len(all) > len(b.p) {
		return errUnwanted
	}
	var list engine.Backoff
	for i, v := range all {
		d, err := parseDuration(v)
		if err != nil || d < 0 {
			return fmt.Errorf("want %s, have %s in it", b.Want(), describe(v))
		}
		list[i] = d
	}
	*b.p = list
	return nil
}

func (b backoffValue) String() string {
	var quoted []string
	for i, d := range b.p {
		if d > 0 || i == 0 {
			for len(quoted) < i {
				quoted = append(quoted, strconv.Quote(formatDuration(b.p[len(quoted)])))
			}
			quoted = append(quoted, strconv.Quote(formatDuration(d)))
		}
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func (b backoffValue) Kind() string { return "durations" }
func (b backoffValue) Want() string {
	return fmt.Sprintf(`a list of up to %d durations such as ["1s", "10s", "1m"]`, len(b.p))
}

// choiceValue is one of a few words, in any case.
type choiceValue struct {
	p     *string
	words []string
}

func (c choiceValue) Set(v any) error {
	s, _ := v.(string)
	for _, w := range c.words {
		if strings.EqualFold(s, w) {
			*c.p = w
			return nil
		}
	}
	return errUnwanted
}

func (c choiceValue) String() string { return strconv.Quote(*c.p) }
func (c choiceValue) Kind() string   { return strings.Join(c.words, "|") }
func (c choiceValue) Want() string   { return orList(c.words) }

// orList is words as `"a", "b" or "c"`.
func orList(words []string) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(w))
	}
	return b.String()
}

// levelValue is a level of the log.
type levelValue struct{ p *slog.Level }

func levels() []string { return []string{"debug", "info", "warn", "error"} }

func (l levelValue) Set(v any) error {
	word := ""
	if err := (choiceValue{&word, levels()}).Set(v); err != nil {
		return err
	}
	return l.p.UnmarshalText([]byte(word))
}

func (l levelValue) String() string { return strconv.Quote(strings.ToLower(l.p.String())) }
func (l levelValue) Kind() string   { return strings.Join(levels(), "|") }
func (l levelValue) Want() string   { return orList(levels()) }

// statusValue is a server status that may be asked for.
type statusValue struct{ p *netloop.Status }

func (s statusValue) Set(v any) error {
	name, _ := v.(string)
	parsed, err := netloop.ParseStatus(name)
	if err != nil || parsed == netloop.Down {
		return errUnwanted
	}
	*s.p = parsed
	return nil
}

func (s statusValue) String() string { return strconv.Quote(s.p.String()) }
func (s statusValue) Kind() string   { return "status" }

func (s statusValue) Want() string {
	var names []string
	for status := netloop.Up; status < netloop.Down; status++ {
		names = append(names, status.String())
	}
	return orList(names)
}

// syncValue is when what a queue acknowledged is synced.
type syncValue struct{ p *engine.SyncPolicy }

func (s syncValue) Set(v any) error {
	switch v {
	case "always":
		*s.p = engine.SyncAlways
		return nil
	case "never":
		*s.p = engine.SyncNever
		return nil
	}
	period, err := parseDuration(v)
	if err != nil {
		return err
	}
	if *s.p = engine.SyncAlways; period > 0 {
		*s.p = engine.SyncEvery(period)
	}
	return nil
}

func (s syncValue) String() string {
	if period := s.p.Period(); period > 0 {
		return strconv.Quote(formatDuration(period))
	}
	return strconv.Quote(s.p.String())
}

func (s syncValue) Kind() string { return "always|never|duration" }
func (s syncValue) Want() string { return `"always", "never" or a period such as "100ms"` }

// codecValue is a compression of backlogs.
type codecValue struct{ p *segment.Codec }

func codecs() []string {
	return []string{
		segment.CodecNone.String(), segment.CodecS2.String(), segment.CodecZstd.String(),
	}
}

func (c codecValue) Set(v any) (err error) {
	word := ""
	if err := (choiceValue{&word, codecs()}).Set(v); err != nil {
		return err
	}
	*c.p, err = segment.ParseCodec(word)
	return err
}

func (c codecValue) String() string { return strconv.Quote(c.p.String()) }
func (c codecValue) Kind() string   { return strings.Join(codecs(), "|") }
func (c codecValue) Want() string   { return orList(codecs()) }

// readValue is a way to read backlogs.
type readValue struct{ p *segment.ReadMode }

func readModes() []string { return []string{segment.ReadMapped.String(), segment.ReadDirect.String()} }

func (r readValue) Set(v any) (err error) {
	word := ""
	if err := (choiceValue{&word, readModes()}).Set(v); err != nil {
		return err
	}
	*r.p, err = segment.ParseReadMode(word)
	return err
}

func (r readValue) String() string { return strconv.Quote(r.p.String()) }
func (r readValue) Kind() string   { return strings.Join(readModes(), "|") }
func (r readValue) Want() string   { return orList(readModes()) }

// wordedValue is a value that a word may stand for.
type wordedValue[T comparable] struct {
	Value
	p    *T
	word string
	mean T
}

// optional is v, kept at p, where "none" is written for mean.
func optional[T comparable](p *T, mean T, v Value) Value {
	return wordedValue[T]{v, p, "none", mean}
}

// automatic is v, kept at p, where "auto" is written for mean.
func automatic[T comparable](p *T, mean T, v Value) Value {
	return wordedValue[T]{v, p, "auto", mean}
}

func (w wordedValue[T]) Set(v any) error {
	if v == w.word {
		*w.p = w.mean
		return nil
	}
	return w.Value.Set(v)
}

func (w wordedValue[T]) String() string {
	if *w.p == w.mean {
		return strconv.Quote(w.word)
	}
	return w.Value.String()
}

func (w wordedValue[T]) Kind() string { return w.Value.Kind() + "|" + w.word }
func (w wordedValue[T]) Want() string { return fmt.Sprintf("%s, or %q", w.Value.Want(), w.word) }
