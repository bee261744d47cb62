package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// keyName is what a key may have been called instead.
type keyName struct {
	key string
	was []string
}

func namesOf[T any](groups []Group[T]) []keyName {
	var names []keyName
	for _, o := range All(groups) {
		names = append(names, keyName{o.Key, o.Was})
	}
	return names
}

// place is a kind of table in the file, with the keys it takes.
type place struct {
	where string // how to get there
	names []keyName
}

// placeOf returns the place that the key at path is in, and the other places.
func placeOf(path []string) (here place, others []place) {
	top := place{"belongs at the top of the file, before the first [table]", namesOf(ServerOptions())}
	for _, table := range tableNames() {
		top.names = append(top.names, keyName{key: table})
	}
	queue := place{"belongs under [default] or [queues.NAME]", namesOf(QueueOptions())}
	alias := place{"belongs under [aliases.NAME]", namesOf(AliasOptions())}
	found := place{"belongs under [discovery]", append(namesOf(DiscoveryOptions()), keyName{key: TableZooKeeper})}
	user := place{"belongs under [users.NAME]", namesOf(UserOptions())}
	account := place{"belongs under [accounts.NAME]", namesOf(AccountOptions())}
	secure := place{"belongs under [tls.NAME]", namesOf(TLSOptions())}
	listener := place{"belongs under [[listener]]", namesOf(ListenerOptions())}
	zookeeper := place{"belongs under [discovery.zookeeper]", namesOf(ZooKeeperOptions())}
	switch {
	case len(path) == 1:
		return top, []place{queue, alias, found, zookeeper, listener, user, account, secure}
	case path[0] == TableTLS:
		return secure, []place{top, listener}
	case path[0] == TableAccounts:
		return account, []place{top, user}
	case path[0] == TableUsers:
		return user, []place{top}
	case path[0] == TableListener:
		return listener, []place{top}
	case path[0] == TableAliases:
		return alias, []place{top, queue}
	case path[0] == TableDiscovery && len(path) == 2:
		return found, []place{zookeeper, top}
	case path[0] == TableDiscovery:
		return zookeeper, []place{found, top}
	default:
		return queue, []place{top, alias}
	}
}

// unknownKey says what may have been meant by the key at path, which has the value v.
func unknownKey(path []string, v any) string {
	key := path[len(path)-1]
	here, others := placeOf(path)
	if meant := here.exact(key); meant != "" {
		return didYouMean(meant)
	}
	for _, other := range others {
		if meant := other.exact(key); meant == key {
			return other.where
		} else if meant != "" {
			return fmt.Sprintf("unknown key; %s %s", meant, other.where)
		}
	}
	if meant := here.nearest(key); meant != "" {
		return didYouMean(meant)
	}
	if _, table := v.(map[string]any); table && len(path) == 3 {
		name := toml.Key{path[0], path[1] + "." + key}
		return fmt.Sprintf("unknown table; a name with a dot needs quotes, [%s], and cannot be that"+
			" of a queue", name)
	}
	return "unknown key"
}

func didYouMean(key string) string { return fmt.Sprintf("unknown key; did you mean %s?", key) }

// isKey reports whether a key of that name may stand in some table.
func isKey(name string) bool {
	here, others := placeOf([]string{name})
	isName := func(p place) bool { return p.exact(name) == name }
	return slices.ContainsFunc(append(others, here), isName)
}

// exact returns the key that is, or was, called name or, in another spelling of its case, name; ""
// if there is none.
func (p place) exact(name string) string {
	fold := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s))
	}
	for _, n := range p.names {
		if fold(n.key) == fold(name) || slices.Contains(n.was, name) {
			return n.key
		}
	}
	return ""
}

// nearest returns the key that name is a small mistake away from; "" if there is none.
func (p place) nearest(name string) string {
	best, meant := max(len(name)/4, 1)+1, ""
	for _, n := range p.names {
		if d := distance(n.key, name, best); d < best {
			best, meant = d, n.key
		}
	}
	return meant
}

// distance is how many bytes must be put in, left out, changed or swapped with their neighbour to make b of a. It is
// limit if that is limit or more.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, last, row := []int(nil), []int(nil), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return min(row[len(b)], limit)
}
