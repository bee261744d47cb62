// Package scenario holds the load tests. Five are the original Kestrel's (put-many, many-clients, flood, packing,
// leaky-reader) with its options and its output. The others are open-loop, ramp, fanout, mixed, outage, soak, delayed,
// leases and retries.
//
// A scenario is a sequence of phases, each of which is one run of package loadtest, with one ledger
// over all of them. [Run] runs it, checks at the end that nothing is missing, and fills a
// [figures.Run]. A scenario is bounded in time or in items, and in both by its context.
package scenario
