package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kestrelmq/kestrel/engine"
)

// queues resolves the options of the queues that have a block, by name. What a block leaves alone
// comes from [default] or, for a fanout child, from its parent: the part of the name before the
// first '+'.
func (p *parser) queues(blocks map[string]map[string]any) {
	settings := &p.config.Engine.Settings
	options := All(QueueOptions())
	names := slices.SortedFunc(maps.Keys(blocks), func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "+"), strings.Count(b, "+")), cmp.Compare(a, b))
	})
	for _, name := range names { // parents come first
		resolved := settings.For(name)
		apply(p, []string{TableQueues, name}, blocks[name], options, &resolved)
		settings.Queues[name] = resolved
	}
}

// aliases takes in the blocks of the aliases.
func (p *parser) aliases(blocks map[string]map[string]any) {
	aliases := p.config.Engine.Settings.Aliases
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		var destinations []string
		path := []string{TableAliases, name}
		apply(p, path, blocks[name], All(AliasOptions()), &destinations)
		for _, d := range destinations {
			if err := engine.ValidateName(d); err != nil {
				p.problem(append(slices.Clip(path), "destination_queues"), "%s", err)
			}
		}
		if len(destinations) == 0 {
			p.warn(path, "no destination_queues: items put to the alias are dropped")
		}
		aliases[name] = destinations
	}
	for _, name := range slices.Sorted(maps.Keys(aliases)) {
		if cycle := cycleOf(aliases, name); cycle != nil {
			p.problem([]string{TableAliases, name, "destination_queues"},
				"alias reaches itself: %s", strings.Join(cycle, " -> "))
		}
	}
}

// cycleOf returns a way from the alias called name back to itself, both ends included, or nil.
func cycleOf(aliases map[string][]string, name string) []string {
	seen := make(map[string]bool)
	var search func(from string) []string
	search = func(from string) []string {
		for _, next := range aliases[from] {
			if next == name {
				return []string{from, next}
			}
			if seen[next] {
				continue
			}
			seen[next] = true
			if rest := search(next); rest != nil {
				return append([]string{from}, rest...)
			}
		}
		return nil
	}
	return search(name)
}

// check finds what is wrong with options that are right one by one.
func (p *parser) check(byDefault map[string]any, blocks map[string]map[string]any) {
	c := p.config
	if !slices.ContainsFunc(c.ports, func(n port) bool { return n != portOff }) &&
		!slices.ContainsFunc(c.Listeners, func(l Listener) bool { return l.Protocol != ProtocolAdmin }) {
		p.problem([]string{Protocols()[0].key}, "every protocol is off: nobody could reach the server")
	}
	if c.Engine.SegmentSize > c.Engine.JournalSize/2 {
		p.problem([]string{"segment_size"}, "want at most half of journal_size, %s, have %s",
			FormatSize(c.Engine.JournalSize/2), FormatSize(c.Engine.SegmentSize))
	}
	settings := &c.Engine.Settings
	p.checkQueue([]string{TableDefault}, byDefault, settings.Default)
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		p.checkQueue([]string{TableQueues, name}, blocks[name], settings.Queues[name])
		if _, ok := settings.Aliases[name]; ok {
			p.warn([]string{TableQueues, name},
				"an alias has the same name: puts go to the alias, and nothing can be fetched")
		}
	}
}

// checkQueue finds what is wrong with o, resolved from the block at path, as far as the block has a
// part in it.
func (p *parser) checkQueue(path []string, block map[string]any, o engine.QueueOptions) {
	says := func(keys ...string) bool {
		return slices.ContainsFunc(keys, func(key string) bool { _, ok := block[key]; return ok })
	}
	at := func(key string) []string { return append(slices.Clip(path), key) }
	if says("discard_old_when_full", "max_items", "max_size") && o.DiscardOldWhenFull &&
		(o.MaxItems == 0 || o.MaxSize == 0) {
		p.problem(at("discard_old_when_full"), "with a limit of 0, every item would be discarded")
	}
	if says("expire_to_queue") && o.ExpireTo != "" {
		if err := engine.ValidateName(o.ExpireTo); err != nil {
			p.problem(at("expire_to_queue"), "%s", err)
		}
		if len(path) == 2 && o.ExpireTo == path[1] {
			p.problem(at("expire_to_queue"), "a queue cannot expire items into itself")
		}
	}
	if says("max_queue_age") && o.MaxQueueAge > 0 && p.config.Engine.SweepInterval == 0 {
		p.warn(at("max_queue_age"), "has no effect without expiration_timer_frequency")
	}
}
