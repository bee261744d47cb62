package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/client/discovery"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/netloop/certs"
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
	src, err := readFile(s.File)
	if err != nil {
		return nil, &Error{Problems: []Problem{{Text: err.Error()}}}
	}
	return Parse(s.File, src, s.Overrides)
}

// readFile returns what a file holds, up to one byte more than a configuration may have.
func readFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	return string(src), err
}

// Parse returns the configuration that the TOML text src, which messages call file, and overrides make. It
// returns a *configError that holds every problem.
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
	if isSecret(at.LastKey) { // the parser repeats words that it does not understand
		text = "the value is not TOML: write it in quotes"
	}
	if strings.HasPrefix(text, "expected '.' or ']' to end table name") {
		text += `; names with other characters than letters, digits, _ and - need quotes:` +
			` [queues."work+audit"]`
	}
	return Problem{File: p.file, Line: max(at.Position.Line, 1), Text: text}
}

// isSecret reports whether the key at a path, as the TOML parser names it, has a value that no message repeats.
func isSecret(path string) bool {
	key := path[strings.LastIndexByte(path, '.')+1:]
	user, _ := Find(All(UserOptions()), key)
	zookeeper, _ := Find(All(ZooKeeperOptions()), key)
	return user.Secret || zookeeper.Secret
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

	TableListener  = "listener" // of which there are many
	TableUsers     = "users"
	TableAccounts  = "accounts"
	TableTLS       = "tls"
	TableDiscovery = "discovery"
	TableZooKeeper = "zookeeper" // in TableDiscovery
)

func tableNames() []string {
	return []string{TableDefault, TableQueues, TableAliases, TableDiscovery, TableListener, TableUsers, TableAccounts, TableTLS}
}

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
	p.users(top)
	p.accounts(top)
	p.tls(top)
	p.listeners(top, func(key string) bool {
		_, inFile := server[key]
		return inFile || slices.ContainsFunc(overrides, func(o Override) bool { return o.Key == key })
	})
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

// tls takes in the tables [tls.NAME].
func (p *parser) tls(top map[string]any) {
	named, _ := p.table(top, nil, TableTLS)
	p.config.TLS = make(map[string]certs.Files)
	for _, name := range slices.Sorted(maps.Keys(named)) {
		path := []string{TableTLS, name}
		block, _ := p.table(named, path[:1], name)
		files := certs.Files{}
		apply(p, path, block, All(TLSOptions()), &files)
		for _, key := range []string{"certificate", "key"} {
			if _, ok := block[key]; !ok {
				p.problem(path, "%s is missing", key)
			}
		}
		p.config.TLS[name] = files
	}
}

// accounts takes in the tables [accounts.NAME].
func (p *parser) accounts(top map[string]any) {
	named, _ := p.table(top, nil, TableAccounts)
	for _, name := range slices.Sorted(maps.Keys(named)) {
		path := []string{TableAccounts, name}
		block, _ := p.table(named, path[:1], name)
		if name == engine.DefaultAccount {
			p.problem(path, "its queues are the plain ones, which all protocols reach: bound them by options of queues")
		}
		var q netloop.AccountQuota
		apply(p, path, block, All(AccountOptions()), &q)
		if p.config.Net.Accounts == nil {
			p.config.Net.Accounts = make(map[string]netloop.AccountQuota)
		}
		p.config.Net.Accounts[name] = q
	}
}

// discovery takes in the table [discovery] and the one below it.
func (p *parser) discovery(top map[string]any) {
	d := &p.config.Discovery
	table, _ := p.table(top, nil, TableDiscovery)
	own := make(map[string]any)
	for key, v := range table {
		if key != TableZooKeeper {
			own[key] = v
		}
	}
	path := []string{TableDiscovery}
	apply(p, path, own, All(DiscoveryOptions()), d)
	zookeeper, ok := p.table(table, path, TableZooKeeper)
	path = append(path, TableZooKeeper)
	before := len(p.wrong.Problems)
	apply(p, path, zookeeper, All(ZooKeeperOptions()), d)
	d.ZooKeeper.ACL = discovery.ACL(d.acl)
	if !ok || zookeeper == nil || len(p.wrong.Problems) > before {
		return
	}
	if err := d.ZooKeeper.Validate(); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			p.problem(path, "%s", line)
		}
	}
}

// users takes in the tables [users.NAME], and those of users_file.
func (p *parser) users(top map[string]any) {
	list := p.userBlocks(top)
	if name := p.config.usersFile; name != "" {
		list = append(list, p.readUsers(name)...)
	}
	if len(p.wrong.Problems) > 0 {
		return
	}
	if err := p.config.applyUsers(list); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			p.problem([]string{TableUsers}, "%s", line)
		}
	}
}

// userBlocks returns the users of a file.
func (p *parser) userBlocks(top map[string]any) (list []*access.User) {
	named, _ := p.table(top, nil, TableUsers)
	for _, name := range slices.Sorted(maps.Keys(named)) {
		path := []string{TableUsers, name}
		if err := access.CheckName(name); err != nil {
			p.problem(path, "%s", err)
		}
		block, _ := p.table(named, path[:1], name)
		u := &access.User{Name: name}
		apply(p, path, block, All(UserOptions()), u)
		if len(u.Allow) == 0 {
			p.warn(path, "nothing is allowed: the user can connect, and do nothing")
		}
		list = append(list, u)
	}
	return list
}

// readUsers returns the users of a file of its own.
func (p *parser) readUsers(name string) []*access.User {
	src, err := readFile(name)
	if err != nil {
		p.problem([]string{"users_file"}, "%s", err)
		return nil
	}
	own := &parser{file: name, config: p.config, idle: p.idle}
	keys, excess := findKeys(src)
	top, err := decode(src)
	switch own.keys = keys; {
	case excess != nil:
		p.wrong.Add(Problem{File: name, Line: excess.Line, Text: excess.Text})
		return nil
	case err != nil:
		p.wrong.Add(own.syntax(err))
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(top)) {
		if key != TableUsers {
			own.problem([]string{key}, "a file of users has tables [users.NAME] only")
		}
	}
	list := own.userBlocks(top)
	for _, problem := range own.wrong.Problems {
		p.wrong.Add(problem)
	}
	return list
}

// listeners takes in the tables [[listener]]. A port of the shorthand that nothing is said of is then off.
func (p *parser) listeners(top map[string]any, said func(key string) bool) {
	v, ok := top[TableListener]
	if !ok {
		return
	}
	tables, ok := v.([]map[string]any)
	if !ok {
		p.problem([]string{TableListener}, "want tables, each written [[%s]], have %s", TableListener, describe(v))
		return
	}
	c := p.config
	for i, proto := range Protocols() {
		if !said(proto.key) {
			c.ports[i] = portOff
		}
	}
	taken := make(map[string]int)
	for i, table := range tables {
		path := []string{TableListener, strconv.Itoa(i + 1)}
		at := func(key string) []string { return append(slices.Clip(path), key) }
		l := defaultListener()
		apply(p, path, table, All(ListenerOptions()), &l)
		for _, key := range []string{"protocol", "address"} {
			if _, ok := table[key]; !ok {
				p.problem(path, "%s is missing", key)
			}
		}
		for key, why := range l.misplaced(table) {
			p.problem(at(key), "%s", why)
		}
		if l.Auth != "" && l.Auth != netloop.AuthNone && c.Users == nil {
			p.problem(at("auth"), "%s", noUsers(l.Auth))
		}
		files, known := c.TLS[l.TLS]
		switch {
		case l.TLS != "" && !known:
			p.problem(at("tls"), "there is no table [tls.%s]", l.TLS)
		case (l.Auth == netloop.AuthCertificate || l.Auth == netloop.AuthAny) && files.ClientCA == "":
			p.problem(at("auth"), "auth is %q, and needs tls with client_ca", l.Auth)
		}
		if l.Port.MaxConnections > c.Net.MaxConnections && l.Protocol != ProtocolAdmin {
			p.warn(at("max_connections"), "that at the top of the file, %d, is less and holds for all listeners together",
				c.Net.MaxConnections)
		}
		if before, ok := taken[l.Port.Address]; ok && !strings.HasSuffix(l.Port.Address, ":0") {
			p.problem(at("address"), "listener %d has it already", before)
		}
		taken[l.Port.Address] = i + 1
		c.Listeners = append(c.Listeners, l)
	}
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
		switch err := v.Set(table[key]); {
		case err == nil:
		case o.Secret && errors.Is(err, errUnwanted):
			p.problem(at, "want %s", v.Want())
		default:
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
