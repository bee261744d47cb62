// Package peer knows the servers that figures are compared between, kestrel among them: how each is
// installed, with what settings it is started so that its answer to a put means the same as the
// others' of its class, and what must be created before it takes items.
package peer
