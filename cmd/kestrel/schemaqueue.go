package main

import (
	"math"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// queueOptions returns the keys of [default] and [queues.NAME]. A reload applies them all.
func queueOptions() []group[engine.QueueOptions] {
	groups := []group[engine.QueueOptions]{
		{"Limits", limitOptions()},
		{"Expiry", expiryOptions()},
		{"Durability", durabilityOptions()},
		{"Reading", readingOptions()},
		{"Accepted, without effect", idleOptions()},
	}
	for _, g := range groups {
		for i := range g.options {
			g.options[i].live = true
		}
	}
	return groups
}

// limit is a number of items or bytes; "none" stands for what DefaultQueueOptions has.
func limit(p *int64, none int64) value {
	return optional(p, none, countValue[int64]{p, 0, math.MaxInt64})
}

func limitOptions() []option[engine.QueueOptions] {
	type options = engine.QueueOptions
	none := engine.DefaultQueueOptions()
	return []option[options]{{
		key: "max_items", was: []string{"maxItems"},
		help: "items queued; a put beyond it is refused",
		at:   func(o *options) value { return limit(&o.MaxItems, none.MaxItems) },
	}, {
		key: "max_size", was: []string{"maxSize"},
		help: "bytes queued; tested before an item is added",
		at: func(o *options) value {
			return optional(&o.MaxSize, none.MaxSize, sizeValue{&o.MaxSize, 0})
		},
	}, {
		key: "max_item_size", was: []string{"maxItemSize"},
		help: "larger items are refused; 32MiB bounds it too",
		at: func(o *options) value {
			return optional(&o.MaxItemSize, none.MaxItemSize, sizeValue{&o.MaxItemSize, 0})
		},
	}, {
		key: "discard_old_when_full", was: []string{"discardOldWhenFull"},
		help: "a full queue drops its oldest items instead of refusing new ones",
		at:   func(o *options) value { return boolValue{&o.DiscardOldWhenFull} },
	}, {
		key: "max_memory_size", was: []string{"maxMemorySize"},
		help: "bytes of its items that are kept in memory; one item always is",
		at:   func(o *options) value { return sizeValue{&o.MaxMemorySize, 0} },
	}}
}

func expiryOptions() []option[engine.QueueOptions] {
	type options = engine.QueueOptions
	none := engine.DefaultQueueOptions()
	return []option[options]{{
		key: "max_age", was: []string{"maxAge"},
		help: "how long an item may stay, also one that is queued already",
		at:   func(o *options) value { return optionalDuration(&o.MaxAge) },
	}, {
		key: "expire_to_queue", was: []string{"expireToQueue", "move_expired_to"},
		help: `the queue that takes expired items; "none" drops them`,
		at: func(o *options) value {
			return optional(&o.ExpireTo, "", textValue{&o.ExpireTo, "queue", "expired"})
		},
	}, {
		key: "max_expire_sweep", was: []string{"maxExpireSweep"},
		help: "expired items that a put or a sweep removes at most; a fetch: all",
		at:   func(o *options) value { return limit(&o.MaxExpireSweep, none.MaxExpireSweep) },
	}, {
		key: "max_queue_age", was: []string{"maxQueueAge"},
		help: "deletes the queue this long after its creation, once it is empty",
		at:   func(o *options) value { return optionalDuration(&o.MaxQueueAge) },
	}}
}

func durabilityOptions() []option[engine.QueueOptions] {
	type options = engine.QueueOptions
	return []option[options]{{
		key: "keep_journal", was: []string{"keepJournal", "journal"},
		help: "without a journal the queue's items end with the process",
		at:   func(o *options) value { return boolValue{&o.KeepJournal} },
	}, {
		key: "sync_journal", flag: "sync-journal", was: []string{"syncJournal"},
		help: "when a put is synced to disk: before the reply, within a time, or never",
		at:   func(o *options) value { return syncValue{&o.Sync} },
	}}
}

func readingOptions() []option[engine.QueueOptions] {
	type options = engine.QueueOptions
	return []option[options]{{
		key: "fanout_only", was: []string{"fanoutOnly"},
		help: "passes items to the queue's children (NAME+CHILD) and keeps none",
		at:   func(o *options) value { return boolValue{&o.FanoutOnly} },
	}, {
		key: "open_transaction_timeout", was: []string{"openTransactionTimeout"},
		help: "gives an item back that was opened this long ago and not confirmed",
		at: func(o *options) value {
			return optionalDuration(&o.OpenReadTimeout)
		},
	}, {
		key: "white_list_client_id_for_enqueue", was: []string{"whiteListClientIdForEnqueue"},
		help: "the one client id that may put",
		at: func(o *options) value {
			return optional(&o.EnqueueClientID, "", textValue{&o.EnqueueClientID, "client id", "billing"})
		},
	}, {
		key: "white_list_client_id_for_dequeue", was: []string{"whiteListClientIdForDequeue"},
		help: "the one client id that may fetch and flush",
		at: func(o *options) value {
			return optional(&o.DequeueClientID, "", textValue{&o.DequeueClientID, "client id", "billing"})
		},
	}, {
		key: "enable_trace", was: []string{"enableTrace"},
		help: "logs every open, confirm and abort",
		at:   func(o *options) value { return boolValue{&o.Trace} },
	}}
}

// Why the options that the original needed for a file per queue have no effect.
const (
	oneJournal  = "all queues share one journal; see journal_size"
	noRewriting = "the journal is cut at its old end, and never rewritten"
)

// idleOptions returns the options of the original that mean nothing here. Their values are checked,
// and go nowhere; the defaults are the original's.
func idleOptions() []option[engine.QueueOptions] {
	type options = engine.QueueOptions
	bytes := func(n int64) func(*options) value {
		return func(*options) value { v := n; return sizeValue{&v, 0} }
	}
	return []option[options]{{
		key: "default_journal_size", was: []string{"defaultJournalSize"}, idle: oneJournal,
		at: bytes(16 << 20),
	}, {
		key: "max_journal_size", was: []string{"maxJournalSize"}, idle: oneJournal,
		at: bytes(1 << 30),
	}, {
		key: "min_journal_compact_delay", was: []string{"minJournalCompactDelay"}, idle: noRewriting,
		at: func(*options) value { d := time.Minute; return optionalDuration(&d) },
	}, {
		key: "disable_aggressive_rewrites", was: []string{"disableAggressiveRewrites"}, idle: noRewriting,
		at: func(*options) value { return boolValue{new(bool)} },
	}}
}

// aliasOptions returns the keys of [aliases.NAME].
func aliasOptions() []group[[]string] {
	return []group[[]string]{{"Aliases", []option[[]string]{{
		key: "destination_queues", was: []string{"destinationQueues"}, live: true,
		help: "queues, children or aliases that take every item put to the alias",
		at:   func(list *[]string) value { return textsValue{list} },
	}}}}
}
