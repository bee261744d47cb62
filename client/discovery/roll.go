package discovery

import (
	"slices"
	"time"
)

// returnTime is how long behind an outage of ZooKeeper servers may take to announce themselves again. Ours look
// once a second, and need a session for it.
const returnTime = 5 * time.Second

// roll remembers the nodes of one set, those that are there and those that have gone in the last seconds. Some
// servers have left. Others will be back: an outage of ZooKeeper has ended their sessions. It tells which are which.
//
// That a node is there behind an outage says nothing: its session may end yet. A server is back when it has a node
// that is new since.
type roll struct {
	sightings []sighting
	outage    time.Time // nodes that were seen before it may have been lost by it
	until     time.Time // so long they count as there
}

// sighting is when a node was there.
type sighting struct {
	node  node
	since time.Time
	gone  time.Time // zero while it is there
}

// call notes that the set now has the nodes of found, and returns them and those that an outage has hidden. Outage says
// that ZooKeeper was away since the last call.
func (r *roll) call(found []node, now time.Time, outage bool) (present []node) {
	lost := r.note(found, now)
	switch {
	case outage:
		r.outage, r.until = now, now.Add(returnTime)
	case lost && !now.Before(r.until):
		if since, all := r.lostAll(); all {
			r.outage, r.until = since, now.Add(returnTime)
		}
	}
	present = found
	if !now.Before(r.until) {
		return present
	}
	for _, s := range r.sightings {
		same := func(n node) bool { return n.member.Service == s.node.member.Service }
		if s.since.Before(r.outage) && !r.back(s.node) && !slices.ContainsFunc(present, same) {
			present = append(present, s.node)
		}
	}
	return present
}

// returning reports whether nodes that have gone may count as there.
func (r *roll) returning(now time.Time) bool { return now.Before(r.until) }

// note brings the sightings up to date, and reports whether a node has gone.
func (r *roll) note(found []node, now time.Time) (lost bool) {
	at := make(map[string]int, len(found)) // index into found, of those that are new
	for i, n := range found {
		at[n.identity()] = i
	}
	kept := r.sightings[:0]
	for _, s := range r.sightings {
		i, there := at[s.node.identity()]
		switch {
		case there && s.gone.IsZero():
			delete(at, s.node.identity())
			s.node = found[i]
		case s.gone.IsZero():
			s.gone, lost = now, true
		case now.Sub(s.gone) > returnTime:
			continue
		}
		kept = append(kept, s)
	}
	r.sightings = kept
	for i, n := range found {
		if j, isNew := at[n.identity()]; isNew && i == j {
			r.sightings = append(r.sightings, sighting{node: n, since: now})
		}
	}
	return lost
}

// lostAll reports whether several nodes have gone in the last seconds, and none is left that was there when the first
// of them went. It also returns when that was. Servers do not all leave at once: ZooKeeper has ended their sessions,
// though the reader's lived on, and not all in the same moment.
func (r *roll) lostAll() (since time.Time, all bool) {
	gone := 0
	for _, s := range r.sightings {
		if s.gone.IsZero() {
			continue
		}
		if gone++; gone == 1 || s.gone.Before(since) {
			since = s.gone
		}
	}
	for _, s := range r.sightings {
		if s.gone.IsZero() && s.since.Before(since) {
			return since, false
		}
	}
	return since, gone > 1
}

// back reports whether the server of a node has one now, or had a new one since the outage.
func (r *roll) back(n node) bool {
	for _, s := range r.sightings {
		if s.node.member.Service == n.member.Service && (s.gone.IsZero() || !s.since.Before(r.outage)) {
			return true
		}
	}
	return false
}
