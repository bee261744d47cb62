package client

import (
	"context"
	"slices"
)

// Members are the servers that may be used, each as host:port.
type Members struct {
	Write []string // for puts
	Read  []string // for everything that takes items
}

// clone returns m with lists of its own, sorted, each server once.
func (m Members) clone() Members {
	tidy := func(servers []string) []string {
		servers = slices.Clone(servers)
		slices.Sort(servers)
		return slices.Compact(servers)
	}
	return Members{Write: tidy(m.Write), Read: tidy(m.Read)}
}

// all returns every server once.
func (m Members) all() []string {
	return Members{Write: slices.Concat(m.Write, m.Read)}.clone().Write
}

// has reports whether a server is in one of the sets.
func (m Members) has(server string) bool {
	return slices.Contains(m.Write, server) || slices.Contains(m.Read, server)
}

// A Source says which servers there are. A client watches one for as long as it is open.
type Source interface {
	// Watch reports the members at once, and again with each change, until ctx ends. It stays with what
	// it knows when it loses its own connection, and comes back by itself: an error means that it has
	// given up.
	//
	// Report may be called from any goroutine, by one at a time. It keeps nothing of its argument. An
	// empty list changes nothing: the client goes on with the servers it had.
	Watch(ctx context.Context, report func(Members)) error
}

// Static returns a Source of servers, host:port each, that never change: all of them take puts, and
// all of them have items.
func Static(servers ...string) Source { return static(slices.Clone(servers)) }

type static []string

func (s static) Watch(ctx context.Context, report func(Members)) error {
	report(Members{Write: s, Read: s})
	<-ctx.Done()
	return nil
}
