// Package spread makes one back end of several.
//
// # Failover
//
// [Failover] asks the first of its members that answers. A member that cannot be reached is left alone
// and probed in the background, so no caller waits for it twice. When it answers again it is the first
// again, and long waits at another member move to it.
//
// Another member is asked only if the one before certainly has done nothing: it could not be reached, or
// said so. A change whose answer was lost returns backend.ErrUnknownOutcome, and the caller decides.
//
// Members do not copy messages to each other. What the second took while the first was away stays there, and is seen
// again when the first is away again. Read it by the second's own URL. The same id may then be on both.
//
// # Hash
//
// [Hash] gives each queue of an account one of its members, by rendezvous hashing. So all messages of a queue are in
// one place, in their order, and every program with the same list finds them. When one of n members joins or leaves the
// list, one queue in n moves to another member; its messages do not move with it. A member may be a Failover. The place
// of a queue depends on the name of its slot, not on who serves it now.
//
// Accounts and queues are listed member by member. Each page asks every member for all of its names, so
// pages miss nothing and repeat nothing.
package spread
