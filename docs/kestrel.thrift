// The Thrift interface of kestrel: binary protocol, framed transport, port 2229 by default.
//
// Generate a client from this file; PROTOCOL.md, part 4, specifies the calls byte by byte. On the
// wire it is the interface of the original Kestrel 2.4, so clients generated from that one's IDL
// work unchanged.
//
// What holds for every method:
//
//   - The calls of a connection are served one at a time, in the order they arrive; they may be
//     pipelined. A get that waits holds up what was sent behind it on its connection, nothing else.
//   - Arguments may be left out and then have the default shown, or 0; only queue_name must be
//     there, and the status of set_status. Unknown fields are skipped.
//   - Queue names are UTF-8, not empty, and hold no '.', '/', '~' or NUL. put, get and peek create
//     a queue that does not exist; the other methods do not.
//   - Items are any bytes, none included.
//   - Times are milliseconds.
//   - What cannot be done is answered with a TApplicationException, and the connection stays open:
//     type 1 for a method that does not exist, type 7 for arguments that break the rules of the
//     protocol, type 6 for everything else, among it an illegal queue name and an operation that
//     the status of the server or a limit of the connection forbids. The message is for people.
//   - A frame that is too long or holds no call closes the connection without an answer.

namespace * kestrel

// Item is what get returns.
struct Item {
  // The bytes that were put.
  1: binary data
  // Names the open read, for confirm and abort; greater than 0. It is 0 for an item that is gone
  // from the queue for good. Ids are drawn at random: they say nothing of order, queue or time.
  2: i64 id
}

// QueueInfo is what peek returns. A queue of which there is nothing to say has zeros.
struct QueueInfo {
  // The item that a get would return next; left out if there is none. It stays in the queue.
  1: optional binary head_item
  // Items in the queue, and the sum of their sizes in bytes. Open reads do not count.
  2: i64 items
  3: i64 bytes
  // About what the queue's items and open reads take in the journal, in bytes.
  4: i64 journal_bytes
  // How long the item that was fetched last had been in the queue, in milliseconds.
  5: i64 age
  // Clients that wait for an item of the queue.
  6: i32 waiters
  // Reads of the queue that are neither confirmed nor aborted.
  7: i32 open_transactions
}

// Status is what the server may be asked to do.
enum Status {
  // A status that has no number here. It is reported, never set.
  NOT_CONFIGURED = 0,
  // Neither puts nor fetches.
  QUIESCENT = 1,
  // Fetches only.
  READ_ONLY = 2,
  // Everything.
  UP = 3
}

service Kestrel {
  // put appends items to a queue, in their order.
  //
  // expiration_msec is how long they live, counted from the call; 0 means for ever, unless the
  // queue has a limit of its own. Items with a negative one are put, and have expired at once.
  //
  // It returns how many items were put. The first that the queue refuses, because it is full or the
  // item too large, ends the call: those before it are in the queue, it and those behind it are
  // not. The items of a call are no transaction: after an exception the first ones may be in the
  // queue. A put of no items returns 0 and creates no queue.
  //
  // delay_msec hides the items for so long, counted from the call. It is the server's own: the original, and
  // servers before 3.0, skip it and put items that are not hidden; ask get_version first. A delay that is
  // below 0, or longer than max_delay of the queue allows, is an exception of type 6.
  i32 put(
    1: string queue_name,
    2: list<binary> items,
    3: i32 expiration_msec = 0,
    4: i64 delay_msec = 0
  )

  // get fetches up to max_items items, oldest first. 0 fetches nothing; a negative number sets no
  // limit.
  //
  // timeout_msec is how long to collect them. With 0 the call returns what is there. With more it
  // returns when max_items are collected or the time is over, NOT when the first item comes: ask
  // for max_items 1 to get one item as soon as there is one. With less than 0 it returns nothing.
  //
  // auto_abort_msec greater than 0 makes the reads reliable. Each item then has an id and stays
  // open until it is confirmed, and so gone, or aborted, and so back at the head of the queue. What
  // is still open that many milliseconds after the call has returned goes back by itself. A
  // reliable read belongs to the server, not to the connection: it outlives that, and any
  // connection may end it. With 0 or less the items are gone from the queue as they are fetched,
  // and their ids are 0.
  //
  // The list may be shorter than asked for: the queue may have run empty, the server limits how
  // many open reads a connection may have on a queue (1 by default; at the limit the list is empty,
  // for plain reads too), and it may limit the size of a reply. A queue that is an alias returns
  // nothing, at once.
  list<Item> get(
    1: string queue_name,
    2: i32 max_items,
    3: i32 timeout_msec = 0,
    4: i32 auto_abort_msec = 0
  )

  // confirm ends open reads of queue_name: the items are done with, and gone. Ids that are not
  // open, or are of another queue, are ignored. It returns how many reads it has ended. They need
  // not be of this connection.
  i32 confirm(1: string queue_name, 2: set<i64> ids)

  // abort ends open reads of queue_name: the items go back to the head of the queue, in the order
  // in which they were opened, and are there for the next get. Ids that are not open, or are of
  // another queue, are ignored. It returns how many reads it has ended. They need not be of this
  // connection.
  i32 abort(1: string queue_name, 2: set<i64> ids)

  // peek tells about a queue without changing it. It never waits. Of an alias there is nothing to
  // say.
  QueueInfo peek(1: string queue_name)

  // flush_queue discards all items of a queue but those that are open. A queue that does not exist
  // is none the worse for it.
  void flush_queue(1: string queue_name)

  // flush_all_queues does so for every queue.
  void flush_all_queues()

  // delete_queue discards a queue with all its items, those that are open included. Nothing happens
  // to a queue that does not exist.
  void delete_queue(1: string queue_name)

  // current_status returns the status that the server was last asked for. It may not be enforced
  // yet: a stricter one is after a time of grace.
  Status current_status()

  // set_status changes the status of the server. NOT_CONFIGURED and numbers that are not in Status
  // are refused with an exception of type 6, and so are calls that are not from the same machine.
  void set_status(1: Status status)

  // get_version returns the version of the server, for example "2.4.1".
  string get_version()
}
