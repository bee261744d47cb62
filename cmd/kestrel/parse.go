package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/kestrelmq/kestrel/engine"
)

// override is what a flag says in place of the file.
type override struct{ key, flag, value string }

// loadConfig reads the configuration file, unless file is "", and applies overrides. It returns a
// *configError that holds every problem.
func loadConfig(file string, overrides []override) (*config, error) {
	if file == "" {
		return parseConfig("", "", overrides)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, &configError{problems: []problem{{text: err.Error()}}}
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxConfigSize+1))
	if err != nil {
		return nil, &configError{problems: []problem{{text: err.Error()}}}
	}
	return parseConfig(file, string(src), overrides)
}

// parseConfig returns the configuration that the TOML text src, which file is named for in
// messages, and overrides make. It returns a *configError that holds every problem.
func parseConfig(file, src string, overrides []override) (*config, error) {
	p := &parser{file: file, config: defaultConfig(), idle: make(map[string]bool)}
	keys, excess := findKeys(src)
	if p.keys = keys; excess != nil {
		return nil, &configError{problems: []problem{{file: file, line: excess.line, text: excess.text}}}
	}
	top, err := decode(src)
	if err != nil {
		return nil, &configError{problems: []problem{p.syntax(err)}}
	}
	p.document(top, overrides)
	if err := p.wrong.orNil(); err != nil {
		return nil, err
	}
	p.config.finish()
	p.config.idle = slices.Sorted(maps.Keys(p.idle))
	if err := p.config.engine.Validate(); err != nil { // finds nothing that was not found above
		return nil, &configError{problems: []problem{{file: file, text: err.Error()}}}
	}
	return p.config, nil
}

// decode returns a TOML text as a table. The parser panics on what it takes for its own mistakes.
func decode(src string) (top map[string]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("not TOML: %v", r)
		}
	}()
	_, err = toml.Decode(src, &top)
	return top, err
}

// parser makes a config of decoded TOML.
type parser struct {
	file   string
	keys   *keyNode
	config *config
	wrong  configError
	idle   map[string]bool // keys without an effect that were given
}

// syntax says where a text is not TOML.
func (p *parser) syntax(err error) problem {
	var at toml.ParseError
	if !errors.As(err, &at) {
		return problem{file: p.file, text: err.Error()}
	}
	text := at.Message
	if strings.HasPrefix(text, "expected '.' or ']' to end table name") {
		text += `; names with other characters than letters, digits, _ and - need quotes:` +
			` [queues."work+audit"]`
	}
	return problem{file: p.file, line: max(at.Position.Line, 1), text: text}
}

// problem notes what is wrong with the key at path.
func (p *parser) problem(path []string, format string, args ...any) {
	p.wrong.add(p.at(path, format, args...))
}

// warn notes something about the key at path that is accepted, but looks wrong.
func (p *parser) warn(path []string, format string, args ...any) {
	p.config.warnings = append(p.config.warnings, p.at(path, format, args...).String())
}

// at says something about the key at path.
func (p *parser) at(path []string, format string, args ...any) problem {
	return problem{
		file: p.file, line: p.keys.lineOf(path...), key: toml.Key(path).String(),
		text: fmt.Sprintf(format, args...),
	}
}

// Names of the tables of the file.
const (
	tableDefault = "default"
	tableQueues  = "queues"
	tableAliases = "aliases"
)

func tables() []string { return []string{tableDefault, tableQueues, tableAliases} }

// document takes in the whole file, and then the overrides.
func (p *parser) document(top map[string]any, overrides []override) {
	c := p.config
	server := make(map[string]any)
	for key, v := range top {
		if !slices.Contains(tables(), key) {
			server[key] = v
		}
	}
	apply(p, nil, server, all(serverOptions()), c)
	byDefault, _ := p.table(top, nil, tableDefault)
	apply(p, []string{tableDefault}, byDefault, all(queueOptions()), &c.engine.Settings.Default)
	for _, o := range overrides {
		p.override(o)
	}
	blocks := p.blocks(top, tableQueues, "work")
	p.queues(blocks)
	p.aliases(p.blocks(top, tableAliases, "all"))
	p.check(byDefault, blocks)
}

// table returns the table called key in parent, which is at path; nil and true if there is none.
func (p *parser) table(parent map[string]any, path []string, key string) (map[string]any, bool) {
	v, ok := parent[key]
	if !ok {
		return nil, true
	}
	t, ok := v.(map[string]any)
	if !ok {
		path = append(slices.Clip(path), key)
		p.problem(path, "want a table, written [%s], have %s", toml.Key(path), describe(v))
	}
	return t, ok
}

// blocks returns the tables of queues or of aliases, by name. Example is a name for messages.
func (p *parser) blocks(top map[string]any, kind, example string) map[string]map[string]any {
	named, _ := p.table(top, nil, kind)
	blocks := make(map[string]map[string]any)
	for _, name := range slices.Sorted(maps.Keys(named)) {
		path := []string{kind, name}
		if _, ok := named[name].(map[string]any); !ok && isKey(name) {
			p.problem(path, "belongs in a table with a name, such as [%s.%s]", kind, example)
			continue
		}
		if err := engine.ValidateName(name); err != nil {
			p.problem(path, "%s", err)
		}
		if block, ok := p.table(named, path[:1], name); ok {
			blocks[name] = block
		}
	}
	return blocks
}

// apply sets what the options in the table at path say.
func apply[T any](p *parser, path []string, table map[string]any, options []option[T], dst *T) {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		at := append(slices.Clip(path), key)
		o, ok := find(options, key)
		if !ok && p.wrong.full() {
			p.wrong.more++ // to find out what was meant takes a while
			continue
		}
		if !ok {
			p.problem(at, "%s", unknownKey(at, table[key]))
			continue
		}
		if o.idle != "" {
			p.idle[key] = true
		}
		v := o.at(dst)
		if err := v.set(table[key]); err != nil {
			p.problem(at, "%s", refusal(v, err, table[key]))
		}
	}
}

// refusal says why v did not take what was written.
func refusal(v value, err error, written any) string {
	if errors.Is(err, errUnwanted) {
		return fmt.Sprintf("want %s, have %s", v.want(), describe(written))
	}
	return err.Error()
}

// override sets what a flag says.
func (p *parser) override(o override) {
	var v value
	if server, ok := find(all(serverOptions()), o.key); ok {
		v = server.at(p.config)
	} else if queue, ok := find(all(queueOptions()), o.key); ok {
		v = queue.at(&p.config.engine.Settings.Default)
	}
	if err := setString(v, o.value); err != nil {
		p.wrong.add(problem{key: "--" + o.flag, text: refusal(v, err, o.value)})
	}
}
