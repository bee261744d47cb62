// Package discovery announces Kestrel servers in ZooKeeper, and finds those that are announced.
//
// A server announces itself in two sets of servers, the directories read and write below a path. A set has one
// ephemeral node per server, called member_ and ten digits. The data of a node names the server's ports in the JSON of
// Finagle's server sets. The original Kestrel wrote the same nodes, so its clients find these servers, and this package
// finds the original's.
//
// An [Announcer] holds a wish: in which sets its server should be. Once a second, and after every change, it compares
// ZooKeeper with that wish and corrects the difference. So it needs no memory of what it did before. A session that
// expired, a node that somebody deleted, or a lost answer is a difference like any other. While ZooKeeper is away, it
// goes on trying.
//
// [Watch] reports who is in a set, at once and after every change. When it hears of one it lists the sets, and reads the
// members that are new. Every ten seconds, and in each new session, it reads all of them.
package discovery
