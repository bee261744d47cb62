// Package loadtest generates load for queue servers, checks every reply, and measures rate, latency
// and the processor time that it costs itself.
//
// A run is one or more groups of connections, each of which repeats an operation: put, get, open and confirm, and so
// on. A closed-loop group sends a batch of Pipeline requests in one write, and the next batch once every reply of the
// last one has arrived. A server that stalls also stops the arrivals. So the percentiles are service time under
// saturation. A group with a rate is open-loop: requests are due on a schedule that the server cannot hold up.
// Latency counts from then, so that a stall shows in every request that was due meanwhile.
//
// # Cost
//
// A generator that costs more than the server measures itself. Each generator thread is one goroutine locked to an
// operating system thread. It owns its epoll instance, its connections and its histograms; there is no goroutine per
// connection. Where all values are alike, the bytes of requests and of the replies that are due are built once. A turn
// over a ready connection is then one read, one comparison with the bytes due, and one write. With a [Ledger] every
// value is stamped and every item is checked, which costs some 100 ns an item. Nothing is allocated per request. What
// remains is the kernel's price of a read and a write on a TCP socket.
//
// # Checking
//
// A reply that is not the due one is parsed. A get may also miss, which is counted. Anything else ends the run with a
// [ReplyError] that holds the bytes. With a [Ledger] items are known one by one. Each must have been put to the queue
// it came from, byte by byte, must come once, and in the order of its producer. An item that was acknowledged and never
// came is a [LostError].
//
// # Vocabulary
//
// A batch is what a connection has in flight. A cycle is the sequence of request kinds that an
// operation repeats, such as put, get. A window is a span of load between two moments at which no
// request is outstanding: first the warm-up, then the one that is measured. An interval is a part
// of the measured window, for what is to be seen over time.
//
// The package runs on Linux only.
package loadtest
