package scalaconfig

import (
	"fmt"
	"math"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/kestrelmq/kestrel/client/discovery"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
	"github.com/kestrelmq/kestrel/engine"
)

// translation is a configuration of the original as TOML.
type translation struct {
	file     string
	Problems config.Error     // what could not be translated
	Notes    []config.Problem // what the reader should know
	server   settingList
	byDefault,
	queues, aliases []block
	zookeeper block
	config    *config.Config // takes the values, to check them
}

// setting is a key and its value as TOML.
type setting struct{ key, value, comment string }

type settingList []setting

// set adds a setting, or replaces one.
func (l *settingList) set(s setting) {
	if i := slices.IndexFunc(*l, func(o setting) bool { return o.key == s.key }); i >= 0 {
		(*l)[i] = s
		return
	}
	*l = append(*l, s)
}

func (l settingList) has(key string) bool {
	return slices.ContainsFunc(l, func(s setting) bool { return s.key == key })
}

// block is the settings of one queue or alias.
type block struct {
	name     string
	line     int
	settings settingList
}

// Translate reads a file of the original, which is named in messages.
func Translate(file, src string) *translation {
	t := &translation{file: file, config: config.Default(), byDefault: []block{{}}}
	if len(src) > config.MaxSize {
		t.problem(0, "", "the file is larger than %s", config.FormatSize(config.MaxSize))
		return t
	}
	body := parseScala(src, func(line int, format string, args ...any) {
		t.problem(line, "", format, args...)
	})
	for _, a := range body {
		t.assignment(a)
	}
	if len(body) > 0 {
		t.implied()
	}
	t.checkWhole()
	return t
}

// problem notes what cannot be translated.
func (t *translation) problem(line int, key, format string, args ...any) {
	t.Problems.Add(config.Problem{File: t.file, Line: line, Key: key, Text: fmt.Sprintf(format, args...)})
}

func (t *translation) note(line int, key, format string, args ...any) {
	t.Notes = append(t.Notes, config.Problem{File: t.file, Line: line, Key: key, Text: fmt.Sprintf(format, args...)})
}

// logsToStderr is why loggers have no counterpart.
const logsToStderr = "the log goes to standard error: have it kept by what runs the server"

// whyNot is why the option of the original that is called name has no counterpart.
func whyNot(name string) string {
	switch {
	case name == "beFactoryClass":
		return "names a class of the original"
	case strings.HasPrefix(name, "admin."):
		return "not part of the configuration here"
	}
	return "there is no such option"
}

// defaultPrefix stands before the options of all queues.
const defaultPrefix = "default."

// assignment translates a statement at the top.
func (t *translation) assignment(a assignment) {
	switch {
	case strings.HasPrefix(a.path, defaultPrefix):
		t.queueOption(&t.byDefault[0].settings, a)
	case a.path == "default" && a.value.kind == exprNew:
		for _, b := range a.value.body {
			t.queueOption(&t.byDefault[0].settings, b)
		}
	case a.path == "queues":
		t.builders(a, "QueueBuilder", &t.queues, t.queueOption)
	case a.path == "aliases":
		t.builders(a, "AliasBuilder", &t.aliases, t.aliasOption)
	case a.path == "zookeeper":
		t.zooKeeper(a)
	case a.path == "loggers":
		t.loggers(a.value)
	case a.path == "queuePath" && a.value.kind == exprString:
		t.queuePath(a)
	default:
		setOption(t, &t.server, a, config.All(config.ServerOptions()), t.config)
	}
}

// queuePath gives the data directory a place beside the original's files, not among them.
func (t *translation) queuePath(a assignment) {
	dir := path.Join(a.value.text, "data")
	a.value.text = dir
	setOption(t, &t.server, a, config.All(config.ServerOptions()), t.config)
	t.note(a.line, a.path, "data_dir is %s, so that the journals there stay as they are;"+
		" 'kestrel journal import' takes them over", dir)
}

// builders translates a list of queues or aliases.
func (t *translation) builders(
	a assignment, class string, into *[]block, option func(*settingList, assignment),
) {
	list := a.value.elements
	switch {
	case a.value.kind == exprNew:
		list = []expression{a.value}
	case a.value.kind == exprName && a.value.text == "Nil":
		return
	case a.value.kind != exprList:
		t.problem(a.value.line, a.path, "%s", orUnderstood(a.value, "want a list of "+class))
		return
	}
	for _, e := range list {
		if e.kind != exprNew || className(e.text) != class {
			t.problem(e.line, a.path, "%s", orUnderstood(e, "want 'new "+class+" { … }'"))
			continue
		}
		t.builder(a.path, e, into, option)
	}
}

// builder translates a queue or an alias.
func (t *translation) builder(
	kind string, e expression, into *[]block, option func(*settingList, assignment),
) {
	b := block{line: e.line}
	named := false
	for _, a := range e.body {
		if a.path == "name" && a.value.kind == exprString {
			b.name, named = a.value.text, true
			continue
		}
		option(&b.settings, a)
	}
	if !named {
		t.problem(e.line, kind, "it has no name")
		return
	}
	if err := engine.ValidateName(b.name); err != nil {
		t.problem(e.line, kind, "%s", err)
		return
	}
	if i := slices.IndexFunc(*into, func(o block) bool { return o.name == b.name }); i >= 0 {
		t.note(e.line, kind, "%q is there twice: this one counts, not that of line %d", b.name,
			(*into)[i].line)
		*into = slices.Delete(*into, i, i+1)
	}
	*into = append(*into, b)
}

func (t *translation) queueOption(into *settingList, a assignment) {
	setOption(t, into, a, config.All(config.QueueOptions()), &t.config.Engine.Settings.Default)
}

func (t *translation) aliasOption(into *settingList, a assignment) {
	setOption(t, into, a, config.All(config.AliasOptions()), new([]string))
}

// acls are the names of access lists in the original, in lower case without underscores.
var acls = map[string]string{
	"openaclunsafe": string(discovery.Open), "openunsafeacl": string(discovery.Open),
	"everyonereadcreatorall":    string(discovery.Creator),
	"everyonereadcreatorallacl": string(discovery.Creator),
}

// zooKeeper translates the block that has the server announce itself.
func (t *translation) zooKeeper(a assignment) {
	if a.value.kind == exprName && a.value.text == "None" {
		return
	}
	if a.value.kind != exprNew || !strings.HasPrefix(className(a.value.text), "ZooKeeper") {
		t.problem(a.value.line, a.path, "%s", orUnderstood(a.value, "want 'new ZooKeeperBuilder { … }'"))
		return
	}
	host, port := "", int64(discovery.DefaultPort)
	t.zookeeper.line = a.line
	for _, b := range a.value.body {
		switch {
		case b.path == "host" && b.value.kind == exprString:
			host = b.value.text
		case b.path == "port" && b.value.kind == exprNumber:
			port = b.value.number
		default:
			b.path = a.path + "." + b.path
			setOption(t, &t.zookeeper.settings, b, config.All(config.ZooKeeperOptions()), &t.config.Discovery)
		}
	}
	if host == "" {
		t.problem(a.line, a.path, "it has no host")
		return
	}
	value := fmt.Sprintf("[%q]", net.JoinHostPort(host, strconv.FormatInt(port, 10)))
	t.zookeeper.settings = append(settingList{{key: "hosts", value: value}}, t.zookeeper.settings...)
}

// loggers translates the level; where the log goes is not for the server to say.
func (t *translation) loggers(e expression) {
	list := e.elements
	if e.kind == exprNew {
		list = []expression{e}
	} else if e.kind != exprList {
		t.problem(e.line, "loggers", "%s", orUnderstood(e, "want a list of LoggerConfig"))
		return
	}
	for _, logger := range list {
		for _, a := range logger.body {
			if level := logLevelOf(a); level != "" {
				t.server.set(setting{key: "log_level", value: fmt.Sprintf("%q", level)})
				continue
			}
			t.problem(a.line, "loggers."+a.path, "%s", logsToStderr)
		}
	}
}

// logLevelOf returns what the original called `level = Level.INFO`; "" if it is not that.
func logLevelOf(a assignment) string {
	if a.path != "level" || a.value.kind != exprName {
		return ""
	}
	switch className(a.value.text) {
	case "TRACE", "DEBUG", "ALL":
		return "debug"
	case "INFO":
		return "info"
	case "WARNING", "WARN":
		return "warn"
	case "ERROR", "CRITICAL", "FATAL":
		return "error"
	}
	return ""
}

// setOption translates an assignment to one of options, whose values dst takes to check them.
func setOption[T any](
	t *translation, into *settingList, a assignment, options []config.Option[T], dst *T,
) {
	name := strings.TrimPrefix(a.path, defaultPrefix)
	i := slices.IndexFunc(options, func(o config.Option[T]) bool { return slices.Contains(o.Was, name) })
	if i < 0 {
		t.problem(a.line, a.path, "%s", whyNot(a.path))
		return
	}
	o := options[i]
	v := o.At(dst)
	written, ok := writtenAs(o.Key, v, a.value)
	if !ok {
		t.problem(a.value.line, a.path, "%s", orUnderstood(a.value, "want "+v.Want()))
		return
	}
	if err := v.Set(written); err != nil {
		t.problem(a.value.line, a.path, "%s", config.Refusal(v, err, written))
		return
	}
	s := setting{key: o.Key, value: v.String()}
	if o.Idle != "" {
		s.comment = "no effect: " + o.Idle
	}
	into.set(s)
}

// orUnderstood is why e cannot be translated: it was not understood at all, or else reason.
func orUnderstood(e expression, reason string) string {
	if e.kind == exprBad {
		return e.text
	}
	return reason
}

// writtenAs is e as TOML would have it, for the option called key; ok is false if there is no such
// thing.
func writtenAs(key string, v config.Value, e expression) (written any, ok bool) {
	switch e.kind {
	case exprString:
		return e.text, true
	case exprNumber:
		return e.number, true
	case exprMeasure:
		if bytes, ok := bytesOf(e); ok {
			return bytes, true
		}
		d, ok := durationOf(e)
		if key == "sync_journal" && d == 0 {
			return "always", ok
		}
		return d.String(), ok
	case exprName:
		return nameAs(key, e.text)
	case exprList:
		list := []any{}
		for _, element := range e.elements {
			if element.kind != exprString {
				return nil, false
			}
			list = append(list, element.text)
		}
		return list, true
	}
	return nil, false
}

// nameAs is a name of the original's language as TOML.
func nameAs(key, name string) (written any, ok bool) {
	switch name {
	case "true", "false":
		return name == "true", true
	case "None":
		return "none", true
	case "Nil":
		return []any{}, true
	case "Int.MaxValue", "Integer.MAX_VALUE":
		return int64(math.MaxInt32), true
	case "Long.MaxValue":
		return int64(math.MaxInt64), true
	case "Duration.MaxValue", "Duration.Top", "Duration.forever":
		if key == "sync_journal" {
			return "never", true
		}
		return "none", true
	}
	switch key {
	case "default_status":
		return className(name), true
	case "acl":
		acl, ok := acls[strings.ReplaceAll(strings.ToLower(className(name)), "_", "")]
		return acl, ok
	}
	return nil, false
}

// bytesOf is a size such as 16.megabytes.
func bytesOf(e expression) (int64, bool) {
	shifts := map[string]uint{
		"byte": 0, "kilobyte": 10, "megabyte": 20, "gigabyte": 30, "terabyte": 40,
	}
	shift, ok := shifts[strings.TrimSuffix(e.text, "s")]
	if !ok || e.number < 0 || e.number > math.MaxInt64>>shift {
		return 0, false
	}
	return e.number << shift, true
}

// durationOf is a time such as 30.seconds.
func durationOf(e expression) (time.Duration, bool) {
	units := map[string]time.Duration{
		"nanosecond": time.Nanosecond, "microsecond": time.Microsecond,
		"milli": time.Millisecond, "millisecond": time.Millisecond, "second": time.Second,
		"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour,
	}
	unit, ok := units[strings.TrimSuffix(e.text, "s")]
	if !ok || e.number < 0 || e.number > math.MaxInt64/int64(unit) {
		return 0, false
	}
	return time.Duration(e.number) * unit, true
}

// implied says what the original did where the file says nothing, if it is not the same here.
func (t *translation) implied() {
	if !t.server.has("listen_address") {
		t.server.set(setting{"listen_address", `"0.0.0.0"`, "what the original did by default"})
	}
	if !t.byDefault[0].settings.has("sync_journal") {
		t.note(0, "default.syncJournal", `is not set: the original did not sync then; here a put is`+
			` synced before it is answered, unless [default] says sync_journal = "never"`)
	}
}

// checkWhole finds what is wrong with the whole that is right in its parts.
func (t *translation) checkWhole() {
	_, err := config.Parse("", t.String(), nil)
	wrong, ok := err.(*config.Error)
	if !ok {
		return
	}
	for _, p := range wrong.Problems {
		t.problem(t.lineOf(p.Key), p.Key, "%s", p.Text)
	}
}

// lineOf is the line of the queue or alias that a key of the TOML belongs to, 0 for another key.
func (t *translation) lineOf(key string) int {
	if strings.HasPrefix(key, config.TableDiscovery+".") {
		return t.zookeeper.line
	}
	for table, blocks := range map[string][]block{config.TableQueues: t.queues, config.TableAliases: t.aliases} {
		for _, b := range blocks {
			if strings.HasPrefix(key+".", toml.Key{table, b.name}.String()+".") {
				return b.line
			}
		}
	}
	return 0
}

// String is the TOML.
func (t *translation) String() string {
	var b strings.Builder
	write := func(s setting) {
		fmt.Fprintf(&b, "%s = %s", s.key, s.value)
		if s.comment != "" {
			fmt.Fprintf(&b, " # %s", s.comment)
		}
		b.WriteString("\n")
	}
	for _, s := range t.server {
		write(s)
	}
	table := func(key toml.Key, list settingList) {
		fmt.Fprintf(&b, "\n[%s]\n", key)
		for _, s := range list {
			write(s)
		}
	}
	if len(t.zookeeper.settings) > 0 {
		table(toml.Key{config.TableDiscovery, config.TableZooKeeper}, t.zookeeper.settings)
	}
	if len(t.byDefault[0].settings) > 0 {
		table(toml.Key{config.TableDefault}, t.byDefault[0].settings)
	}
	for _, q := range t.queues {
		table(toml.Key{config.TableQueues, q.name}, q.settings)
	}
	for _, a := range t.aliases {
		table(toml.Key{config.TableAliases, a.name}, a.settings)
	}
	return b.String()
}
