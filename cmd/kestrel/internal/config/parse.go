package config

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

// Override is what a flag says in place of the file.
type Override struct{ Key, Flag, Value string }

// Source is where the configuration comes from, each time it is loaded.
type Source struct {
	File      string // "" for none
	Overrides []Override
}

// Load reads the configuration file, if there is one, and applies the overrides. It returns a
// *configError that holds every problem.
func (s Source) Load() (*Config, error) {
	if s.File == "" {
		return Parse("", "", s.Overrides)
	}
	f, err := os.Open(s.File)
	if err != nil {
		return nil, &Error{Problems: []Problem{{Text: err.Error()}}}
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, &Error{Problems: []Problem{{Text: err.Error()}}}
	}
	return Parse(s.File, string(src), s.Overrides)
}

// parseConfig returns the configuration that the TOML text src, which file is named for in
// messages, and overrides make. It returns a *configError that holds every problem.
func Parse(file, src string, overrides []Override) (*Config, error) {
	p := &parser{file: file, config: Default(), idle: make(map[string]bool)}
	keys, excess := findKeys(src)
	if p.keys = keys; excess != nil {
		return nil, &Error{Problems: []Problem{{File: file, Line: excess.Line, Text: excess.Text}}}
	}
	top, err := decode(src)
	if err != nil {
		return nil, &Error{Problems: []Problem{p.syntax(err)}}
	}
	p.document(top, overrides)
	if err := p.wrong.OrNil(); err != nil {
		return nil, err
	}
	p.config.finish()
	p.config.Idle = slices.Sorted(maps.Keys(p.idle))
	if err := p.config.Engine.Validate(); err != nil { // finds nothing that was not found above
		return nil, &Error{Problems: []Problem{{File: file, Text: err.Error()}}}
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
	config *Config
	wrong  Error
	idle   map[string]bool // keys without an effect that were given
}

// syntax says where a text is not TOML.
func (p *parser) syntax(err error) Problem {
	var at toml.ParseError
	if !errors.As(err, &at) {
		return Problem{File: p.file, Text: err.Error()}
	}
	text := at.Message
	if strings.HasPrefix(text, "expected '.' or ']' to end table name") {
		text += `; names with other characters than letters, digits, _ and - need quotes:` +
			` [queues."work+audit"]`
	}
	return Problem{File: p.file, Line: max(at.Position.Line, 1), Text: text}
}

// problem notes what is wrong with the key at path.
func (p *parser) problem(path []string, format string, args ...any) {
	p.wrong.Add(p.at(path, format, args...))
}

// warn notes something about the key at path that is accepted, but looks wrong.
func (p *parser) warn(path []string, format string, args ...any) {
	p.config.Warnings = append(p.config.Warnings, p.at(path, format, args...).String())
}

// at says something about the key at path.
func (p *parser) at(path []string, format string, args ...any) Problem {
	return Problem{
		File: p.file, Line: p.keys.lineOf(path...), Key: toml.Key(path).String(),
		Text: fmt.Sprintf(format, args...),
	}
}

// Names of the tables of the file.
const (
	TableDefault = "default"
	TableQueues  = "queues"
	TableAliases = "aliases"

	TableDiscovery = "discovery"
	TableZooKeeper = "zookeeper" // in TableDiscovery
)

func tableNames() []string { return []string{TableDefault, TableQueues, TableAliases, TableDiscovery} }

// document takes in the whole file, and then the overrides.
func (p *parser) document(top map[string]any, overrides []Override) {
	c := p.config
	server := make(map[string]any)
	for key, v := range top {
		if !slices.Contains(tableNames(), key) {
			server[key] = v
		}
	}
	apply(p, nil, server, All(ServerOptions()), c)
	byDefault, _ := p.table(top, nil, TableDefault)
	apply(p, []string{TableDefault}, byDefault, All(QueueOptions()), &c.Engine.Settings.Default)
	for _, o := range overrides {
		p.override(o)
	}
	blocks := p.blocks(top, TableQueues, "work")
	p.queues(blocks)
	p.aliases(p.blocks(top, TableAliases, "all"))
	p.discovery(top)
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
func apply[T any](p *parser, path []string, table map[string]any, options []Option[T], dst *T) {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		at := append(slices.Clip(path), key)
		o, ok := Find(options, key)
		if !ok && p.wrong.full() {
			p.wrong.More++ // to find out what was meant takes a while
			continue
		}
		if !ok {
			p.problem(at, "%s", unknownKey(at, table[key]))
			continue
		}
		if o.Idle != "" {
			p.idle[key] = true
		}
		v := o.At(dst)
		if err := v.Set(table[key]); err != nil {
			p.problem(at, "%s", Refusal(v, err, table[key]))
		}
	}
}

// Refusal says why v did not take what was written.
func Refusal(v Value, err error, written any) string {
	if errors.Is(err, errUnwanted) {
		return fmt.Sprintf("want %s, have %s", v.Want(), describe(written))
	}
	return err.Error()
}

// override sets what a flag says.
func (p *parser) override(o Override) {
	var v Value
	if server, ok := Find(All(ServerOptions()), o.Key); ok {
		v = server.At(p.config)
	} else if queue, ok := Find(All(QueueOptions()), o.Key); ok {
		v = queue.At(&p.config.Engine.Settings.Default)
	}
	if err := setString(v, o.Value); err != nil {
		p.wrong.Add(Problem{Key: "--" + o.Flag, Text: Refusal(v, err, o.Value)})
	}
}
