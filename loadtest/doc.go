// Package loadtest generates load for servers that speak the memcache or the Redis protocol, checks
// every reply, and measures rate, latency and the processor time that it costs itself.
//
// The load is closed-loop: a connection sends a batch of Pipeline requests in one write and sends
// the next batch once every reply of the last one has arrived. Latency is therefore the time from
// the write of a batch to its last reply; a server that stalls also stops the arrivals, so read the
// percentiles as service time under saturation and not as what a client on a schedule would see.
//
// # Cost
//
// A generator that costs more than the server measures itself. Each generator thread is one
// goroutine locked to an operating system thread that owns its epoll instance, its connections and
// its histogram; there is no goroutine per connection and no lock. Request bytes, and the reply
// bytes a correct server must answer with, are built once. A turn over a ready connection is one
// read, one comparison of the bytes read with the bytes due, and one write. Nothing is allocated
// per request. What remains is the kernel's price of a read and a write on a TCP socket, about 95
// % of the whole.
//
// # Checking
//
// A reply that is not the due one is parsed: a get may also miss, which is counted; anything else
// ends the run with a [ReplyError] that holds the bytes. With [Options].Verify every value carries
// its queue's number and a sequence number, and gets check order as well as bytes.
//
// # Vocabulary
//
// A batch is what a connection has in flight. A cycle is the sequence of request kinds that an
// operation repeats, such as set, get. A window is a span of load between two moments at which no
// request is outstanding: first the warm-up, then the one that is measured.
//
// The package runs on Linux only.
package loadtest
