package segment_test

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/kestrelmq/kestrel/segment"
)

// promise is how much of what was appended must be there after a reopen.
type promise uint8

const (
	promiseSynced  promise = iota // every batch that a Sync covered: after a power cut
	promiseWritten                // every batch whose Append returned: after a kill
)

// A violation says how a log broke a promise. It is what the negative controls look for.
type violation string

func (v violation) Error() string { return "promise broken: " + string(v) }

func violationf(format string, args ...any) error {
	return violation(fmt.Sprintf(format, args...))
}

// batch is one frame of the caller's bytes, and where it is.
type batch struct {
	position segment.Position
	segment  uint64
	payload  []byte
}

// history is the model of a log: what it may and what it must hold.
type history struct {
	batches []batch // whose Append returned, or that Open handed over; oldest first
	synced  int     // how many of them are durable
	pending []byte  // payload of an Append that failed after those; nil if none
	askedTo uint64  // segments below may be gone: DropBefore was asked to drop them
	goneTo  uint64  // segments below must be gone: DropBefore said so
}

func (h *history) clone() *history {
	c := *h
	c.batches = slices.Clone(h.batches)
	return &c
}

// collect returns a visitor that copies what it is given to dst.
func collect(dst *[]batch) segment.Visitor {
	return func(f segment.Frame) error {
		*dst = append(*dst, batch{f.Position, f.Segment, bytes.Clone(f.Payload)})
		return nil
	}
}

// check returns a violation unless found is what a log with this history may hold.
func (h *history) check(found []batch, p promise) error {
	must := h.synced
	if p == promiseWritten {
		must = len(h.batches)
	}
	first := slices.IndexFunc(h.batches, func(b batch) bool { return b.segment >= h.askedTo })
	if first < 0 {
		first = len(h.batches)
	}
	if len(found) == 0 {
		if first < must {
			return violationf("nothing is left, want batches %d to %d", first, must)
		}
		return nil
	}
	at := slices.IndexFunc(h.batches, func(b batch) bool { return b.position == found[0].position })
	switch {
	case at < 0:
		at = len(h.batches) // the pending one, or foreign: matched below
	case at > first:
		return violationf("starts with batch %d, want %d or earlier", at, first)
	case at > 0 && h.batches[at].segment == h.batches[at-1].segment:
		return violationf("starts with batch %d, in the middle of segment %d", at, h.batches[at].segment)
	case h.batches[at].segment < h.goneTo:
		return violationf("starts in segment %d, dropped before", h.batches[at].segment)
	}
	if err := h.match(found, at); err != nil {
		return err
	}
	if end := at + len(found); end < must {
		return violationf("ends before batch %d, want all before %d", end, must)
	}
	return nil
}

// match compares found with the batches from at on, and the one more that may have been written.
func (h *history) match(found []batch, at int) error {
	for i, got := range found {
		if at+i == len(h.batches) {
			if i != len(found)-1 || h.pending == nil || !bytes.Equal(got.payload, h.pending) {
				return violationf("%d bytes at position %d were never appended",
					len(got.payload), got.position)
			}
			return nil
		}
		want := h.batches[at+i]
		if got.position != want.position || got.segment != want.segment {
			return violationf("batch %d is at position %d of segment %d, want %d of %d",
				at+i, got.position, got.segment, want.position, want.segment)
		}
		if !bytes.Equal(got.payload, want.payload) {
			return violationf("batch %d has other bytes than were appended", at+i)
		}
	}
	return nil
}

// reopened takes found, which Open handed over, as what the log holds from now on.
func (h *history) reopened(found []batch) {
	*h = history{batches: found, synced: len(found)}
}
