// The Thrift interface of kestrel: binary protocol, framed transport, port 2229 by default.
//
// Generate a client from this file; PROTOCOL.md, part 4, specifies the calls byte by byte. On the
// wire it is the interface of the original Kestrel 2.4 and what has been added since, so clients
// generated from that one's IDL work unchanged. Added are delay_msec, keys and on_duplicate of put,
// delay_msec of abort, deliveries, key and queue_name of Item, release, reject, touch, browse, remove
// and get_any. The original, and servers before 3.0, skip arguments that they do not know, and answer
// methods that they do not know with an exception: ask get_version first.
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
  // How often the item has been delivered reliably, this time included, as far as that counts: an
  // abort counts, and a read that came back by itself; a release does not. It is left out if it is 1,
  // and in a get that is not reliable.
  3: optional i32 deliveries = 1
  // The key that the item was put with; left out if it has none.
  4: optional binary key
  // The queue that get_any has taken the item from; left out by get.
  5: optional string queue_name
}

// ListedItem is what browse returns.
struct ListedItem {
  // Names the item in its queue, for browse, remove and touch. It is its position, and stays the same.
  1: i64 item_id
  // The bytes that were put.
  2: binary data
  // The key that the item was put with; left out if it has none.
  3: optional binary key
  // How often the item was delivered, as far as that counts; a lease that it is under counts.
  4: i32 deliveries
  // When it was put, in milliseconds since 1970.
  5: i64 added_msec
  // When it expires, likewise; left out if it does not.
  6: optional i64 expires_msec
  // When its delay is over, or its lease, likewise; left out if it has none.
  7: optional i64 due_msec
  // Of a dead letter: the queue that gave it up, and why: "deliveries" or "rejected".
  8: optional string from_queue
  9: optional string why
}

// OnDuplicate says what put does about the key of an item.
enum OnDuplicate {
  // The item that has the key gets the new data, in its place. Without such a one, the item is new.
  OVERWRITE = 0,
  // An item whose key another one has is refused.
  ONLY_NEW = 1,
  // An item whose key no other one has is refused.
  ONLY_REPLACE = 2
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
  // delay_msec hides the items for so long, counted from the call. A delay that is below 0, or longer
  // than max_delay of the queue allows, is an exception of type 6.
  //
  // keys has one key for each item, or none at all. A key has 1 to 250 bytes, none of them a control
  // byte, a blank or a slash. A call with another number of keys, or a bad one, puts nothing and is an
  // exception of type 6. An item that on_duplicate refuses ends the call, as one does that the queue
  // refuses.
  i32 put(
    1: string queue_name,
    2: list<binary> items,
    3: i32 expiration_msec = 0,
    4: i64 delay_msec = 0,
    5: list<binary> keys,
    6: OnDuplicate on_duplicate = OnDuplicate.OVERWRITE
  )

  // get fetches up to max_items items, oldest first. 0 fetches nothing; a negative number sets no
  // limit.
  //
  // timeout_msec is how long to collect them. With 0 the call returns what is there. With more it
  // returns when max_items are collected or the time is over, NOT when the first item comes: ask
  // for max_items 1 to get one item as soon as there is one. With less than 0 it returns nothing.
  //
  // auto_abort_msec greater than 0 makes the reads reliable. Each item then has an id and stays
  // open until it is confirmed, and so gone, or aborted or released, and so back in its place in the
  // queue. What is still open that many milliseconds after the call has returned goes back by itself.
  // A reliable read is a lease of the server, not of the connection: it outlives that, and a restart
  // of the server, and any connection may end it. With 0 or less the items are gone from the queue as they are fetched,
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
  // not be of this connection. A read that has come back by itself is ended too, as long as nobody
  // else has got its item.
  i32 confirm(1: string queue_name, 2: set<i64> ids)

  // abort ends open reads of queue_name: the items go back to their places in the queue, and are there
  // for the next get. That counts as a delivery: the one that reaches max_deliveries of the queue
  // sends the item to its dead-letter queue. Ids that are not open, or are of another queue, are
  // ignored. It returns how many reads it has ended. They need not be of this connection.
  //
  // delay_msec hides the items for so long; below 0 it is for as long as redelivery_delay of the queue
  // says. A delay longer than max_delay of the queue is an exception of type 6, and ends nothing.
  i32 abort(1: string queue_name, 2: set<i64> ids, 3: i64 delay_msec = -1)

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

  // authenticate says who calls, on a listener that asks for it. Until it has returned without an
  // exception, the server answers any other call with an exception of type 6. It fails with one as
  // well, and does not say which of the two is wrong.
  void authenticate(1: string user, 2: string password)

  // get_version returns the version of the server, for example "2.4.1".
  string get_version()

  // release is abort for items that were not worked on: that does not count as a delivery. A
  // delay_msec below 0 is an exception of type 6.
  i32 release(1: string queue_name, 2: set<i64> ids, 3: i64 delay_msec = 0)

  // reject ends open reads of queue_name by sending the items to the dead-letter queue. It returns how
  // many reads it has ended.
  i32 reject(1: string queue_name, 2: set<i64> ids)

  // touch has an open read of queue_name come back by itself auto_abort_msec from now, and no sooner or
  // later. It returns when that is, in milliseconds since 1970, or 0 if the read is not open. An
  // auto_abort_msec of 0 or less is an exception of type 6.
  //
  // With item_id or key it is about that item instead, wherever it is: the item expires expiration_msec
  // from now, or never if that is 0. A negative one is an exception of type 6, and so is naming an item
  // in two ways. It returns when that is; 9223372036854775807 stands for never, and 0 says that there is
  // no such item.
  i64 touch(
    1: string queue_name,
    2: i64 id,
    3: i32 auto_abort_msec,
    4: i64 item_id,
    5: binary key,
    6: i32 expiration_msec = 0
  )

  // browse returns items of a queue, and takes none. It never waits for one.
  //
  // With item_id or key it returns that item, wherever it is, or nothing. Otherwise it lists the items
  // with an id of from_id or more, in the order of their ids, limit of them at most: 100 if that is 0,
  // and never more than 10000. hidden adds those that are delayed or leased. The list is shorter if the
  // reply would exceed 16384000 bytes: ask again, from the last id and one.
  list<ListedItem> browse(
    1: string queue_name,
    2: i64 from_id = 0,
    3: i32 limit = 0,
    4: bool hidden = false,
    5: i64 item_id,
    6: binary key
  )

  // remove removes one item, by its id or its key, wherever it is, unless somebody else holds it. It
  // returns 1 if it has removed it, and 0 if it is not there, or held.
  i32 remove(1: string queue_name, 2: i64 item_id, 3: binary key)

  // get_any fetches one item, from the first of up to 16 queues that has one. Each name may stand there
  // once.
  //
  // timeout_msec is how long to wait for one: 0 returns what is there, and less than 0 nothing. With
  // auto_abort_msec greater than 0 the read is reliable, as that of get is. It counts in no limit of
  // open reads. End it with the queue_name that the item comes with.
  //
  // weights has one number from 1 to 1000000 for each queue, or none at all. With them the queues are
  // tried in an order that is drawn at random: the next is one of those left, with a chance in
  // proportion to its weight.
  list<Item> get_any(
    1: list<string> queue_names,
    2: i32 timeout_msec = 0,
    3: i32 auto_abort_msec = 0,
    4: list<i32> weights
  )
}
