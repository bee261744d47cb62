// Package client uses Kestrel servers from Go programs: one server, or many that each have queues of
// their own.
//
// [Dial] makes a [Client]. It puts items, takes them, looks at queues and manages them. All of it
// works with the memcache protocol, so servers of the same family answer too, as far as they know the
// commands.
//
//	c, err := client.Dial(ctx, "kestrel://10.0.0.5,10.0.0.6", client.Options{})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	err = c.Put(ctx, "work", []byte("hello"), client.PutOptions{})
//
// # Putting
//
// [Client.Put] puts one item, [Client.PutAll] many at once. Each call goes to one server of the write set. The client
// leaves a server that fails alone for a while, and asks it again in the background. So order holds within one server,
// and loosely over all. A put whose answer does not come may be stored or not: the error wraps [ErrUnknownOutcome], and
// whether to try again is the caller's choice.
//
// # Taking
//
//   - A [Worker] is what most programs want. It calls a function for each item, for some at a time. It confirms an item
//     when the function has succeeded, and gives it back when it has not.
//   - A [Consumer] hands out items one by one, each to be confirmed or aborted.
//   - [Client.OpenBatch] opens many items of one server at once, for programs that store batches.
//   - [Client.Get] takes one item for good. What is on its way when the program dies is lost.
//
// Items that are opened come back when the program or its connection dies: nothing is lost, and what
// was in hand may be delivered twice. Leased items ([Worker].Lease, [Client.ConsumeLeased]) outlive connections, and come
// back when their time is over. They are by far the quickest to handle: all handlers share two connections to a server,
// where open items need one each.
//
// # Servers
//
// An address lists servers, or names the path in ZooKeeper where they announce themselves, as in zk://zk1,zk2/kestrel.
// A [Source] reports the servers, and what changes. A server that leaves the write set gets no more puts. From one that
// leaves the read set the client takes nothing new, and ends what is open there as usual. When a source reports none,
// the client stays with those it has.
//
// # Errors
//
// An [*Error] says what failed, on which queue and server, and why. The sentinels of this package say
// what a program can branch on.
package client
