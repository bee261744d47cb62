// Package backend has the words that Go programs use for messages: accounts, queues, messages, and the
// [Backend] that keeps them. It is an interface. So a program need not know whether its messages are in this process,
// in a file, on a server or on many.
//
// # Opening one
//
// The back ends are in packages of their own, because some are heavy. So a program that speaks to a server links no
// storage engine and no SQL.
//
//	embedded   an engine in this process: kestrel:///dir, memory://
//	overhttp   a server that speaks Burrow's protocol: http://host:port
//	sqlite     one file, which other programs may look into: sqlite:///file
//	spread     several of them: failover://a,b and hash://a,b,c
//
// Package backends, beside this one, opens any of them by its URL, and links them all.
//
// # Messages
//
// The client chooses the id of a message. [Backend.Put] makes one or overwrites it. Two times belong to
// it: its lifetime, and for how long it is hidden. A hidden message keeps its place in the queue; lists
// pass it by. So a worker hides the next message while it works, and deletes it by its id when it is
// done. If the worker dies the message comes back:
//
//	work := backend.Queue{Account: "acme", Name: "resize"}
//	got, err := b.UpdateMessages(ctx, work, backend.Attributes{Hide: time.Minute},
//		backend.Match{Limit: 1, Wait: 30 * time.Second, Detail: backend.All})
//	if err != nil {
//		return err
//	}
//	resize(got[0].Body)
//	_, err = b.DeleteMessage(ctx, backend.Key{Queue: work, ID: got[0].ID}, backend.None)
//
// Accounts and queues exist while they have messages, hidden ones included.
//
// # What all back ends promise
//
//   - Messages are in the order in which their ids first appeared. Overwriting or hiding moves none.
//   - A request about many messages does to each of them what it asks for, or fails. One that shows what
//     it changed may end early, after about 4 MiB of bodies, as if that had been its limit.
//   - A message that has expired is never seen. One whose hiding ends is seen at once.
//   - A wait ends when something matches; nothing is taken for a caller whose context has ended.
//   - What a method has returned without error survives the process, unless the store is memory.
//   - Every method may be called from any goroutine, and heeds its context.
//
// Package backendtest holds them to that: one suite runs over each of them and over their compositions.
//
// # Errors
//
// An error of a back end is an [*Error] or wraps one of the sentinels of this package. Nothing found is
// an error too, and says what is missing: [ErrNoAccount], [ErrNoQueue] or [ErrNoMessage], all of which are
// [ErrNotFound].
package backend
