package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/alias"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/machine"
	"github.com/kestrelmq/kestrel/engine/internal/openfiles"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/engine/internal/queuename"
	"github.com/kestrelmq/kestrel/segment"
)

// Limits that no option raises.
const (
	// MaxItemSize is the largest item, in bytes, whatever QueueOptions.MaxItemSize says.
	MaxItemSize = 32 << 20
	// MaxNameSize is the longest queue name, in bytes of UTF-8: a record has the size of a name in one byte.
	MaxNameSize = 255
)

// Defaults of Options.
const (
	DefaultShards    = 64
	DefaultMaxQueues = 1 << 20
	// DefaultMaxFanoutChildren is how many children a put reaches within a millisecond, about.
	DefaultMaxFanoutChildren = 1000
	DefaultJournalSize       = 64 << 20 // bytes; a restart reads as much
	DefaultSegmentSize       = 32 << 20 // bytes
)

// minDirectMemory is the default of Options.directFrom.
const minDirectMemory = 512 << 10

// Options configure an [Engine]. The zero value of each field but Dir means its default.
type Options struct {
	// Dir is the data directory; it is made if it is missing. One engine at a time may use it.
	Dir string
	// Settings are the options of queues, and the aliases. Reload replaces them.
	Settings Settings
	// MemoryLimit bounds the bytes of queues, items, open reads and what Account counts. From three
	// quarters of it on the largest queues spill what they hold. Above it, puts, and calls that would
	// create a queue, return ErrOutOfMemory. Zero means DefaultMemoryLimit().
	MemoryLimit int64
	// JournalSize is how many bytes the journal may have before the engine moves live items out of old segments. It
	// spills many items, and rewrites few. It may grow by twice what open and returned reads pin and what a record of
	// each queue takes. For queues of 8 KiB at most it may grow to 16 times its size.
	JournalSize int64
	// SegmentSize is the size of one segment of the journal, in bytes. Zero means an eighth of JournalSize, but at most
	// DefaultSegmentSize. A journal whose items are soon gone then reuses about four segments. The less memory of the
	// page cache that is, the cheaper is a write.
	SegmentSize int64
	// MaxQueues bounds the number of queues; past it, creating one returns ErrTooManyQueues.
	MaxQueues int
	// Files is how many descriptors the engine may have open at a time, MinFiles at least. If they run short it
	// closes files and opens them again, or waits. Zero means DefaultFiles.
	Files int
	// MaxFanoutChildren bounds the number of children of one queue; past it, creating one returns
	// ErrTooManyChildren. An item is put to all of them at once, so that it is in all or in none. Other clients of
	// these queues wait meanwhile. Children that Open finds stay.
	MaxFanoutChildren int
	// Shards is the number of locks that queues are spread over.
	Shards int
	// SweepInterval is how often expired items and queues are looked for in the background. Zero means never: an
	// expired item then leaves when it reaches the head and is asked for.
	SweepInterval time.Duration
	// Still has what is due stay as it is, leases that lapse too, until another engine opens Dir.
	Still bool
	// NoHistograms turns the Meters of queues off.
	NoHistograms bool
	// Progress receives how far Open, Inspect or Examine has come; nil receives nothing.
	Progress *Progress
	// DiskReserve is how many bytes of the disk stay free: below that, puts return ErrOutOfDisk.
	// Zero means a twentieth of the disk, but at least 1 GiB, and at most a tenth.
	DiskReserve int64
	// BacklogCompression says how what is spilled to disk is compressed.
	BacklogCompression segment.Codec
	// BacklogCached has what is spilled go through the page cache, both ways. What a short outage of consumers leaves
	// behind is then read from memory, if the machine has some to spare. Otherwise it goes past it, where the file
	// system can: it takes no memory from others, and several times less processor time.
	BacklogCached bool
	// BacklogRead says how what was written past the page cache is read back. Maps take up to 16 MiB of the page cache.
	BacklogRead segment.ReadMode
	// directFrom is the MaxMemorySize, in bytes, from which on a queue's runs are written past the page cache. Those of
	// smaller ones are made of small frames, and whole blocks for each write would take more room than their items.
	directFrom int64
	// readBack is how long before they are due delayed items are read back from hidden runs; zero stands for
	// defaultReadBack.
	readBack time.Duration
	// markFrom is a number of bytes of records. A checkpoint that needs as many to say what is gone of a queue writes
	// a file instead. Zero stands for defaultMarkFrom.
	markFrom int64
	// markLong is how many ids a range has that stands in a record all the same; zero stands for defaultMarkLong.
	markLong uint64
	// enterBatch is how many bytes of items a queue that enters the journal, or forgo, records before the shard is
	// unlocked; zero stands for checkpointBatch.
	enterBatch int
	// lookBatch is how many items a flush looks at before the shard is unlocked; zero stands for readBatch.
	lookBatch int
	// committer returns what commits the batches of a log; nil: the log does. For tests.
	committer func(*segment.Log) journal.Committer
	// yield lets others have the processor between two pieces of a crossing; nil: processor.Yield. For tests.
	yield func()
	// FS is the file system; nil means the operating system's, with a lock file in Dir.
	FS segment.FS
	// Logger takes what an operator should know; nil discards it.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.MemoryLimit == 0 {
		o.MemoryLimit = DefaultMemoryLimit()
	}
	setDefault(&o.JournalSize, DefaultJournalSize)
	setDefault(&o.SegmentSize, min(DefaultSegmentSize, max(o.JournalSize/8, 4096)))
	setDefault(&o.MaxQueues, DefaultMaxQueues)
	setDefault(&o.MaxFanoutChildren, DefaultMaxFanoutChildren)
	setDefault(&o.directFrom, minDirectMemory)
	setDefault(&o.readBack, defaultReadBack)
	setDefault(&o.markFrom, defaultMarkFrom)
	setDefault(&o.markLong, defaultMarkLong)
	setDefault(&o.enterBatch, checkpointBatch)
	setDefault(&o.lookBatch, readBatch)
	setDefault(&o.Shards, DefaultShards)
	setDefault(&o.Files, DefaultFiles)
	if o.yield == nil {
		o.yield = processor.Yield
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Validate reports every problem of o.
func (o Options) Validate() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("no data directory"))
	}
	refuseNegative(&errs, "memory limit", o.MemoryLimit)
	refuseNegative(&errs, "journal size", o.JournalSize)
	refuseNegative(&errs, "disk reserve", o.DiskReserve)
	refuseNegative(&errs, "segment size", o.SegmentSize)
	refuseNegative(&errs, "maximum number of queues", int64(o.MaxQueues))
	refuseNegative(&errs, "maximum number of fanout children", int64(o.MaxFanoutChildren))
	refuseNegative(&errs, "number of shards", int64(o.Shards))
	refuseNegative(&errs, "sweep interval", int64(o.SweepInterval))
	return errors.Join(append(errs, validateFiles(o.Files), o.Settings.Validate())...)
}

// refuseNegative adds a problem to errs if value is below zero.
func refuseNegative(errs *[]error, name string, value int64) {
	if value < 0 {
		*errs = append(*errs, fmt.Errorf("%s is negative: %d", name, value))
	}
}

// SyncPolicy says when what a queue acknowledged is made durable against a power cut.
type SyncPolicy time.Duration

const (
	// SyncAlways acknowledges only what has been synced. It is the zero value.
	SyncAlways SyncPolicy = 0
	// SyncNever leaves syncing to the operating system and to the rotation of segments.
	SyncNever SyncPolicy = -1
)

// SyncEvery acknowledges what has been written, and syncs it within d, which is at least 1 ms.
func SyncEvery(d time.Duration) SyncPolicy { return SyncPolicy(max(d, time.Millisecond)) }

// Period is the time within which a write is synced; zero for SyncAlways and SyncNever.
func (p SyncPolicy) Period() time.Duration { return max(time.Duration(p), 0) }

func (p SyncPolicy) String() string {
	switch p {
	case SyncAlways:
		return "always"
	case SyncNever:
		return "never"
	}
	return time.Duration(p).String()
}

// Risk says in words what the policy can lose, for logs and statistics.
func (p SyncPolicy) Risk() string {
	switch p {
	case SyncAlways:
		return "nothing acknowledged is lost, neither by a crash of the process nor by a power cut"
	case SyncNever:
		return "a crash of the process loses nothing; a power cut may lose what the operating " +
			"system had not written yet"
	}
	return fmt.Sprintf("a crash of the process loses nothing; a power cut may lose what was "+
		"acknowledged in the last %s", time.Duration(p))
}

// QueueOptions are the options of one queue. Zero is a value here, not a default: start from
// DefaultQueueOptions. The names in parentheses are those of the original's options.
type QueueOptions struct {
	MaxItems    int64 // refuse, or discard, when this many items are queued
	MaxSize     int64 // … or this many bytes; tested before an item is added
	MaxItemSize int64 // bytes; larger items are refused
	// MaxAge bounds how long an item stays, also of items already queued; zero means for ever.
	MaxAge time.Duration
	// MaxMemorySize is how many bytes of items are kept in memory.
	MaxMemorySize int64
	// DiscardOldWhenFull makes a full queue drop its oldest items instead of refusing new ones.
	DiscardOldWhenFull bool
	// KeepJournal makes the queue durable; without it, it ends with the process.
	KeepJournal bool
	Sync        SyncPolicy // (sync_journal)
	// ExpireTo is the queue that takes expired items; "" drops them. (expire_to_queue)
	ExpireTo string
	// MaxExpireSweep is how many expired items a put, a flush of expired items, or the background
	// removes from the head in passing. It bounds neither a fetch, which never hands out an expired
	// item, nor a put that needs the room of expired items.
	MaxExpireSweep int64
	// FanoutOnly makes a queue pass its items to its children and keep none.
	FanoutOnly bool
	// MaxQueueAge deletes the queue this long after its creation once it is empty; zero means never.
	MaxQueueAge time.Duration
	// OpenReadTimeout returns an open read to the queue after this long; zero means never. (open_transaction_timeout)
	OpenReadTimeout time.Duration
	// MaxDeliveries is how often an item is delivered at most: the return of the last delivery sends it to
	// the dead-letter queue. Zero means without end.
	MaxDeliveries int64
	// DeadLetterQueue is that queue, which is made when it is needed and has none itself. "" means NAME_dead,
	// or, for a fanout child, PARENT_dead+CHILD.
	DeadLetterQueue string
	// RedeliveryDelay is for how long an item is hidden that was aborted: the first time, the second time,
	// and so on; the last repeats.
	RedeliveryDelay Backoff
	// Lease is what DefaultLease stands for; zero refuses that.
	Lease time.Duration
	// MaxDelay is the longest delay that a put, or a return, may ask for; zero means any.
	MaxDelay time.Duration
	// MaxKeys bounds how many items with a key the queue takes; zero means any number.
	MaxKeys int64
	// Trace logs every open, confirm and abort. (enable_trace)
	Trace bool
	// EnqueueClientID and DequeueClientID, unless "", admit that one client only.
	// (white_list_client_id_for_enqueue, …_for_dequeue)
	EnqueueClientID string
	DequeueClientID string
}

// Backoff is a list of delays, which ends with the last that is not zero.
type Backoff [8]time.Duration

// after returns the delay after a number of deliveries, at least one.
func (b *Backoff) after(deliveries int) time.Duration {
	n := len(b)
	for n > 0 && b[n-1] == 0 {
		n--
	}
	if n == 0 {
		return 0
	}
	return b[min(deliveries, n)-1]
}

// DefaultQueueOptions are the options of a queue of which nothing is said: no limits, and durable.
func DefaultQueueOptions() QueueOptions {
	return QueueOptions{
		MaxItems:       math.MaxInt32,
		MaxSize:        math.MaxInt64,
		MaxItemSize:    math.MaxInt64,
		MaxMemorySize:  128 << 20,
		KeepJournal:    true,
		Sync:           SyncAlways,
		MaxExpireSweep: math.MaxInt32,
	}
}

// Validate reports every problem of the options of the queue called name; name may be "" for defaults.
func (o QueueOptions) Validate(name string) error {
	var errs []error
	problem := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	refuseNegative(&errs, "max_items", o.MaxItems)
	refuseNegative(&errs, "max_size", o.MaxSize)
	refuseNegative(&errs, "max_item_size", o.MaxItemSize)
	refuseNegative(&errs, "max_memory_size", o.MaxMemorySize)
	refuseNegative(&errs, "max_age", int64(o.MaxAge))
	refuseNegative(&errs, "max_expire_sweep", o.MaxExpireSweep)
	refuseNegative(&errs, "max_queue_age", int64(o.MaxQueueAge))
	refuseNegative(&errs, "open_transaction_timeout", int64(o.OpenReadTimeout))
	refuseNegative(&errs, "max_deliveries", o.MaxDeliveries)
	refuseNegative(&errs, "lease", int64(o.Lease))
	refuseNegative(&errs, "max_delay", int64(o.MaxDelay))
	refuseNegative(&errs, "max_keys", o.MaxKeys)
	if o.DiscardOldWhenFull && (o.MaxItems == 0 || o.MaxSize == 0) {
		problem("discard_old_when_full with a limit of 0 would discard every item for ever")
	}
	if o.ExpireTo != "" {
		if o.ExpireTo == name {
			problem("expire_to_queue names the queue itself")
		}
		if err := ValidateName(o.ExpireTo); err != nil {
			problem("expire_to_queue: %w", err)
		}
	}
	for _, d := range o.RedeliveryDelay {
		if d < 0 {
			problem("redelivery_delay has a negative delay: %v", d)
		}
	}
	if o.DeadLetterQueue != "" {
		if err := ValidateName(o.DeadLetterQueue); err != nil {
			problem("dead_letter_queue: %w", err)
		}
		if o.DeadLetterQueue == name {
			problem("dead_letter_queue names the queue itself")
		}
	}
	return errors.Join(errs...)
}

// Settings say how queues behave, by name, and which aliases there are.
type Settings struct {
	// Default holds for queues that are not in Queues.
	Default QueueOptions
	// Queues holds the complete options of queues by name. A fanout child that is not in it has
	// the options of its parent.
	Queues map[string]QueueOptions
	// Aliases maps the name of an alias to the queues, or aliases, that its items go to.
	Aliases map[string][]string
}

// For returns the options of the queue called name. A queue that would get its own name as its
// ExpireTo, because of what holds for others too, has none: its items would never leave.
func (s *Settings) For(name string) QueueOptions {
	return *resolve(name, &s.Default, func(name string) *QueueOptions {
		if o, ok := s.Queues[name]; ok {
			return &o
		}
		return nil
	})
}

// Validate reports every problem of s.
func (s *Settings) Validate() error {
	var errs []error
	in := func(where string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
		}
	}
	in("default", s.Default.Validate(""))
	for name, o := range s.Queues {
		in(fmt.Sprintf("queue %q", name), ValidateName(name))
		in(fmt.Sprintf("queue %q", name), o.Validate(name))
	}
	for name, targets := range s.Aliases {
		in(fmt.Sprintf("alias %q", name), ValidateName(name))
		for _, target := range targets {
			in(fmt.Sprintf("alias %q: destination %q", name, target), ValidateName(target))
		}
		if alias.Reaches(s.Aliases, name, name) {
			in(fmt.Sprintf("alias %q", name), errors.New("reaches itself"))
		}
	}
	return errors.Join(errs...)
}

// policy is the settings in force. Queues of the same options share one copy of them, which nobody
// changes: there may be a hundred thousand queues of which nothing is said.
type policy struct {
	Settings
	named map[string]*QueueOptions // copies of those in Queues
}

func newPolicy(s Settings) *policy {
	p := &policy{Settings: s, named: make(map[string]*QueueOptions, len(s.Queues))}
	for name, o := range s.Queues {
		p.named[name] = &o
	}
	return p
}

// shared is Settings.For without a copy.
func (p *policy) shared(name string) *QueueOptions {
	return resolve(name, &p.Default, func(name string) *QueueOptions { return p.named[name] })
}

// resolve returns the options of the queue called name: its own, those of its parent, or else the default. The
// function named returns nil for a name without options.
func resolve(name string, byDefault *QueueOptions, named func(string) *QueueOptions) *QueueOptions {
	o := named(name)
	if o == nil {
		o = byDefault
		if parent, child := queuename.Parent(name); child {
			o = resolve(parent, byDefault, named)
		}
	}
	if o.ExpireTo == name {
		own := *o
		own.ExpireTo = ""
		return &own
	}
	return o
}

// ValidateName reports why name cannot be the name of a queue: the error wraps ErrBadName. A name is 1 to MaxNameSize
// bytes of UTF-8 without NUL, '.', '/' and '~', and does not consist of '+' only.
func ValidateName(name string) error {
	reason := queuename.Problem(name)
	if reason == "" {
		return nil
	}
	return &NameError{Name: name, Reason: reason}
}

// A NameError says why a queue name is refused. It unwraps to ErrBadName.
type NameError struct {
	Name   string
	Reason string
}

func (e *NameError) Error() string { return fmt.Sprintf("queue name %.300q %s", e.Name, e.Reason) }

// Unwrap returns ErrBadName.
func (e *NameError) Unwrap() error { return ErrBadName }

// Account counts n bytes against the engine's memory limit that the caller has taken, or given back if n is negative.
// Event loops account for the buffers of their clients so: there is one ledger for items, open reads and connections.
// What is taken is taken; it is the puts that come later that are refused.
func (e *Engine) Account(n int64) { e.memory.Add(n) }

// MemoryLimit is how many bytes items, open reads and what is accounted for may take.
func (e *Engine) MemoryLimit() int64 { return e.opts.MemoryLimit }

// MemoryLeft is how many bytes are left of the memory limit; it may be negative.
func (e *Engine) MemoryLeft() int64 { return e.opts.MemoryLimit - e.memory.Load() }

// DefaultMemoryLimit is a quarter of the memory of the machine, or of the process's control groups
// if they allow less, but at least 16 MiB. It is 1 GiB if neither can be read.
func DefaultMemoryLimit() int64 { return max(machine.Memory(os.DirFS("/"))/4, 16<<20) }

// memoryPressing reports whether so much memory is in use that queues must spill what they hold.
func (e *Engine) memoryPressing() bool { return e.memory.Load() > e.opts.MemoryLimit/4*3 }

// memoryShort reports whether so much memory is in use that queues in read-behind read back only
// what somebody asks for.
func (e *Engine) memoryShort() bool { return e.memory.Load() > e.opts.MemoryLimit/2 }

const (
	// MinFiles is how many descriptors an engine needs.
	MinFiles = openfiles.Min
	// DefaultFiles is how many an engine has use for.
	DefaultFiles = openfiles.Most
)

// validateFiles checks Options.Files.
func validateFiles(n int) error {
	if n != 0 && n < MinFiles {
		return fmt.Errorf("%d files are too few: an engine needs %d", n, MinFiles)
	}
	return nil
}

// FileUse is how many files of a kind an engine has open, and may have.
type FileUse struct{ Open, Limit int64 }

// Files says what the engine's descriptors are used for.
type Files struct {
	Segments FileUse // of the journal: the tail, the next, and sealed ones that wait for a sync
	Writers  FileUse // runs of backlogs that are written, or wait for a sync
	Readers  FileUse // runs of backlogs that are read
}

// Files describes the engine's open files. Its directories, the lock, and files that are open for a
// moment are not among them.
func (e *Engine) Files() Files {
	defer contain()
	return Files{
		Segments: FileUse{int64(e.journal.OpenFiles()), int64(2 + e.files.Unsynced)},
		Writers:  FileUse{e.spool.openWriters.Load(), int64(e.files.Writers)},
		Readers:  FileUse{e.spool.reader.Open(), int64(e.files.Readers)},
	}
}

// measureDisk refuses puts while the disk has less room than the reserve, and takes them again when
// it has an eighth more. What gets and confirms write fits into the reserve.
func (e *Engine) measureDisk() {
	free, ok, err := e.disk.Measure(e.spool.fs, e.opts.Dir, e.log)
	e.report("disk: its free space could not be measured; trying again", err)
	if ok {
		e.noteRoom(free)
	}
}

// noteRoom has the journal try at once to grow on a disk that was full and has room for a segment more than it had. By
// itself the journal tries ever more seldom.
func (e *Engine) noteRoom(free int64) {
	switch {
	case !e.journal.Full() || free < e.leastFree:
		e.leastFree = free
	case free >= e.leastFree+e.opts.SegmentSize:
		e.leastFree = free
		e.journal.NoteRoom()
	}
}
