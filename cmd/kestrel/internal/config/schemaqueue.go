package config

import (
	"math"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// QueueOptions returns the keys of [default] and [queues.NAME]. A reload applies them all.
func QueueOptions() []Group[engine.QueueOptions] {
	groups := []Group[engine.QueueOptions]{
		{"Limits", limitOptions()},
		{"Expiry", expiryOptions()},
		{"Durability", durabilityOptions()},
		{"Reading", readingOptions()},
		{"Delivery", deliveryOptions()},
		{"Accepted, without effect", idleOptions()},
	}
	for _, g := range groups {
		for i := range g.Options {
			g.Options[i].Live = true
		}
	}
	return groups
}

// limit is a number of items or bytes; "none" stands for what DefaultQueueOptions has.
func limit(p *int64, none int64) Value {
	return optional(p, none, countValue[int64]{p, 0, math.MaxInt64})
}

func limitOptions() []Option[engine.QueueOptions] {
	type options = engine.QueueOptions
	none := engine.DefaultQueueOptions()
	return []Option[options]{{
		Key: "max_items", Was: []string{"maxItems"},
		Help: "most items in the queue; it refuses further puts",
		At:   func(o *options) Value { return limit(&o.MaxItems, none.MaxItems) },
	}, {
		Key: "max_size", Was: []string{"maxSize"},
		Help: "most bytes in the queue; checked before an item is added",
		At: func(o *options) Value {
			return optional(&o.MaxSize, none.MaxSize, sizeValue{&o.MaxSize, 0})
		},
	}, {
		Key: "max_item_size", Was: []string{"maxItemSize"},
		Help: "the queue refuses larger items; no item may exceed 32MiB",
		At: func(o *options) Value {
			return optional(&o.MaxItemSize, none.MaxItemSize, sizeValue{&o.MaxItemSize, 0})
		},
	}, {
		Key: "discard_old_when_full", Was: []string{"discardOldWhenFull"},
		Help: "a full queue drops its oldest items instead of refusing new ones",
		At:   func(o *options) Value { return boolValue{&o.DiscardOldWhenFull} },
	}, {
		Key: "max_memory_size", Was: []string{"maxMemorySize"},
		Help: "bytes of items held in memory; at least one item always is",
		At:   func(o *options) Value { return sizeValue{&o.MaxMemorySize, 0} },
	}}
}

func expiryOptions() []Option[engine.QueueOptions] {
	type options = engine.QueueOptions
	none := engine.DefaultQueueOptions()
	return []Option[options]{{
		Key: "max_age", Was: []string{"maxAge"},
		Help: "how long an item may stay; applies to items already queued too",
		At:   func(o *options) Value { return optionalDuration(&o.MaxAge) },
	}, {
		Key: "expire_to_queue", Was: []string{"expireToQueue", "move_expired_to"},
		Help: `the queue that takes expired items; "none" drops them`,
		At: func(o *options) Value {
			return optional(&o.ExpireTo, "", textValue{&o.ExpireTo, "queue", "expired"})
		},
	}, {
		Key: "max_expire_sweep", Was: []string{"maxExpireSweep"},
		Help: "most expired items that a put or a sweep removes; a fetch removes all",
		At:   func(o *options) Value { return limit(&o.MaxExpireSweep, none.MaxExpireSweep) },
	}, {
		Key: "max_queue_age", Was: []string{"maxQueueAge"},
		Help: "deletes the queue this long after its creation, once it is empty",
		At:   func(o *options) Value { return optionalDuration(&o.MaxQueueAge) },
	}}
}

func durabilityOptions() []Option[engine.QueueOptions] {
	type options = engine.QueueOptions
	return []Option[options]{{
		Key: "keep_journal", Was: []string{"keepJournal", "journal"},
		Help: "writes items to the journal; if false they end with the process",
		At:   func(o *options) Value { return boolValue{&o.KeepJournal} },
	}, {
		Key: "sync_journal", Flag: "sync-journal", Was: []string{"syncJournal"},
		Help: "when to sync a put to disk: before the reply, within a time, or never",
		At:   func(o *options) Value { return syncValue{&o.Sync} },
	}}
}

func readingOptions() []Option[engine.QueueOptions] {
	type options = engine.QueueOptions
	return []Option[options]{{
		Key: "fanout_only", Was: []string{"fanoutOnly"},
		Help: "passes items to the queue's children (NAME+CHILD) and stores none",
		At:   func(o *options) Value { return boolValue{&o.FanoutOnly} },
	}, {
		Key: "open_transaction_timeout", Was: []string{"openTransactionTimeout"},
		Help: "returns an item that was opened this long ago and not confirmed",
		At: func(o *options) Value {
			return optionalDuration(&o.OpenReadTimeout)
		},
	}, {
		Key: "white_list_client_id_for_enqueue", Was: []string{"whiteListClientIdForEnqueue"},
		Help: "the one client id that may put",
		At: func(o *options) Value {
			return optional(&o.EnqueueClientID, "", textValue{&o.EnqueueClientID, "client id", "billing"})
		},
	}, {
		Key: "white_list_client_id_for_dequeue", Was: []string{"whiteListClientIdForDequeue"},
		Help: "the one client id that may fetch and flush",
		At: func(o *options) Value {
			return optional(&o.DequeueClientID, "", textValue{&o.DequeueClientID, "client id", "billing"})
		},
	}, {
		Key: "enable_trace", Was: []string{"enableTrace"},
		Help: "logs every open, confirm and abort",
		At:   func(o *options) Value { return boolValue{&o.Trace} },
	}}
}

func deliveryOptions() []Option[engine.QueueOptions] {
	type options = engine.QueueOptions
	return []Option[options]{{
		Key:  "max_deliveries",
		Help: "deliveries of an item at most; then it goes to dead_letter_queue",
		At:   func(o *options) Value { return limit(&o.MaxDeliveries, 0) },
	}, {
		Key:  "dead_letter_queue",
		Help: `takes items that were rejected or exhausted; "auto" is NAME_dead`,
		At: func(o *options) Value {
			return automatic(&o.DeadLetterQueue, "", textValue{&o.DeadLetterQueue, "queue", "failed"})
		},
	}, {
		Key:  "redelivery_delay",
		Help: "hides an aborted item: 1st, 2nd, … time; up to 8, the last repeats",
		At: func(o *options) Value {
			return optional(&o.RedeliveryDelay, engine.Backoff{}, backoffValue{&o.RedeliveryDelay})
		},
	}, {
		Key:  "lease",
		Help: "how long a fetch with a lease keeps its item unless it says so itself",
		At:   func(o *options) Value { return optionalDuration(&o.Lease) },
	}, {
		Key:  "max_delay",
		Help: "longest delay that a client may ask for",
		At:   func(o *options) Value { return optionalDuration(&o.MaxDelay) },
	}, {
		Key:  "max_keys",
		Help: "items with a key that the queue takes, about 20 bytes of memory each",
		At:   func(o *options) Value { return limit(&o.MaxKeys, 0) },
	}}
}

// Why the options that the original needed for a file per queue have no effect.
const (
	oneJournal  = "all queues share one journal; see journal_size"
	noRewriting = "the server drops whole old files of the journal instead"
)

// idleOptions returns the options of the original that mean nothing here. Their values are checked,
// and go nowhere; the defaults are the original's.
func idleOptions() []Option[engine.QueueOptions] {
	type options = engine.QueueOptions
	bytes := func(n int64) func(*options) Value {
		return func(*options) Value { v := n; return sizeValue{&v, 0} }
	}
	return []Option[options]{{
		Key: "default_journal_size", Was: []string{"defaultJournalSize"}, Idle: oneJournal,
		At: bytes(16 << 20),
	}, {
		Key: "max_journal_size", Was: []string{"maxJournalSize"}, Idle: oneJournal,
		At: bytes(1 << 30),
	}, {
		Key: "min_journal_compact_delay", Was: []string{"minJournalCompactDelay"}, Idle: noRewriting,
		At: func(*options) Value { d := time.Minute; return optionalDuration(&d) },
	}, {
		Key: "disable_aggressive_rewrites", Was: []string{"disableAggressiveRewrites"}, Idle: noRewriting,
		At: func(*options) Value { return boolValue{new(bool)} },
	}}
}

// AliasOptions returns the keys of [aliases.NAME].
func AliasOptions() []Group[[]string] {
	return []Group[[]string]{{"Aliases", []Option[[]string]{{
		Key: "destination_queues", Was: []string{"destinationQueues"}, Live: true,
		Help: "queues, children or aliases that take every item put to the alias",
		At:   func(list *[]string) Value { return textsValue{list} },
	}}}}
}
