package engine

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestOptionsValidate(t *testing.T) { // reference §5.5
	queue := func(change func(*QueueOptions)) Options {
		return testOptions(nil, change)
	}
	with := func(change func(*Options)) Options {
		o := testOptions(nil)
		change(&o)
		return o
	}
	for _, tt := range []struct {
		name string
		o    Options
		want []string // in the error; none: valid
	}{
		{"defaults", testOptions(nil), nil},
		{"no directory", with(func(o *Options) { o.Dir = "" }), []string{"no data directory"}},
		{"negative numbers", with(func(o *Options) {
			o.MemoryLimit, o.JournalSize, o.SegmentSize = -1, -2, -3
			o.MaxQueues, o.Shards, o.SweepInterval = -4, -5, -6
		}), []string{
			"memory limit is negative: -1", "journal size is negative: -2",
			"segment size is negative: -3", "maximum number of queues is negative: -4",
			"number of shards is negative: -5", "sweep interval is negative: -6",
		}},
		{"negative queue options", queue(func(o *QueueOptions) {
			o.MaxItems, o.MaxSize, o.MaxItemSize = -1, -1, -1
			o.MaxMemorySize, o.MaxExpireSweep = -1, -1
			o.MaxAge, o.MaxQueueAge, o.OpenReadTimeout = -1, -1, -1
		}), []string{
			"default: max_items is negative: -1", "max_size is negative",
			"max_item_size is negative", "max_memory_size is negative",
			"max_age is negative", "max_expire_sweep is negative",
			"max_queue_age is negative", "open_transaction_timeout is negative",
		}},
		{"limits of zero", queue(func(o *QueueOptions) { o.MaxItems, o.MaxSize = 0, 0 }), nil},
		{"discard with no items", queue(func(o *QueueOptions) {
			o.MaxItems, o.DiscardOldWhenFull = 0, true
		}), []string{"would discard every item for ever"}},
		{"discard with no bytes", queue(func(o *QueueOptions) {
			o.MaxSize, o.DiscardOldWhenFull = 0, true
		}), []string{"would discard every item for ever"}},
		{"illegal expire_to", queue(func(o *QueueOptions) { o.ExpireTo = "a.b" }),
			[]string{"default: expire_to_queue: queue name \"a.b\""}},
		{"illegal queue name", with(func(o *Options) {
			o.Settings.Queues = map[string]QueueOptions{"a.b": DefaultQueueOptions()}
		}), []string{"queue \"a.b\": queue name \"a.b\""}},
		{"a queue that expires into itself", with(func(o *Options) {
			q := DefaultQueueOptions()
			q.ExpireTo = "q"
			o.Settings.Queues = map[string]QueueOptions{"q": q}
		}), []string{"queue \"q\": expire_to_queue names the queue itself"}},
		{"aliases", with(func(o *Options) {
			o.Settings.Aliases = map[string][]string{
				"a": {"b", "c"}, "b": {"c", "d"}, "c": {"d"}, "self": {"self"},
				"x": {"y"}, "y": {"z"}, "z": {"q", "x"}, "into": {"x"},
				"bad.": nil, "worse": {"~"},
			}
		}), []string{
			`alias "self": reaches itself`, `alias "x": reaches itself`,
			`alias "y": reaches itself`, `alias "z": reaches itself`,
			`alias "bad.": queue name`, `alias "worse": destination "~"`,
		}},
		{"same name for a queue and an alias", with(func(o *Options) {
			o.Settings.Queues = map[string]QueueOptions{"q": DefaultQueueOptions()}
			o.Settings.Aliases = map[string][]string{"q": {"p"}}
		}), nil},
	} {
		err := tt.o.Validate()
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: Validate = %v, want %q", tt.name, err, want)
			}
		}
		if got := errorLines(err); got != len(tt.want) {
			t.Errorf("%s: Validate reports %d problems, want %d: %v",
				tt.name, got, len(tt.want), err)
		}
	}
}

func errorLines(err error) int {
	if err == nil {
		return 0
	}
	return strings.Count(err.Error(), "\n") + 1
}

func TestOpenRefusesBadOptions(t *testing.T) {
	o := testOptions(newFS(), func(o *QueueOptions) { o.MaxItems = -1 })
	if _, err := Open(o); err == nil || !strings.HasPrefix(err.Error(), "engine: bad options: ") {
		t.Errorf("Open = %v, want an error of the options", err)
	}
}

func TestSettingsFor(t *testing.T) { // reference §5.3; options are resolved before they come here
	o := func(items int64) QueueOptions { return QueueOptions{MaxItems: items} }
	s := Settings{Default: o(1), Queues: map[string]QueueOptions{
		"q": o(2), "q+fanout": o(3), "x+y": o(4),
	}}
	for _, tt := range []struct {
		name string
		want int64
	}{
		{"z", 1}, {"q", 2}, {"q+other", 2}, {"q+fanout", 3}, {"q+fanout+x", 2},
		{"x", 1}, {"x+y", 4}, {"x+z", 1},
	} {
		if got := s.For(tt.name).MaxItems; got != tt.want {
			t.Errorf("options of %q are those of block %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestSettingsForOwnTarget: what all queues expire into does not expire into itself, nor do its
// children expire into it, unless they say so.
func TestSettingsForOwnTarget(t *testing.T) {
	s := Settings{
		Default: QueueOptions{ExpireTo: "late"},
		Queues: map[string]QueueOptions{
			"q": {ExpireTo: "q+late"}, "late+said": {ExpireTo: "late"}, "none": {},
		},
	}
	for name, want := range map[string]string{
		"z": "late", "z+c": "late", "late": "", "late+c": "", "late+said": "late", "none": "", "none+c": "",
		"q": "q+late", "q+c": "q+late", "q+late": "", "q+late+c": "q+late",
	} {
		if got := s.For(name).ExpireTo; got != want {
			t.Errorf("%q expires into %q, want %q", name, got, want)
		}
	}
}

func TestSyncPolicy(t *testing.T) {
	for _, tt := range []struct {
		policy SyncPolicy
		text   string
		period time.Duration
		risk   string
	}{
		{SyncAlways, "always", 0, "nothing acknowledged is lost"},
		{SyncNever, "never", 0, "may lose what the operating system had not written yet"},
		{SyncEvery(time.Second), "1s", time.Second, "acknowledged in the last 1s"},
		{SyncEvery(time.Microsecond), "1ms", time.Millisecond, "acknowledged in the last 1ms"},
		{SyncEvery(-time.Second), "1ms", time.Millisecond, "acknowledged in the last 1ms"},
	} {
		if got := tt.policy.String(); got != tt.text {
			t.Errorf("String = %q, want %q", got, tt.text)
		}
		if got := tt.policy.Period(); got != tt.period {
			t.Errorf("Period of %s = %s, want %s", tt.text, got, tt.period)
		}
		if got := tt.policy.Risk(); !strings.Contains(got, tt.risk) {
			t.Errorf("Risk of %s = %q, want %q in it", tt.text, got, tt.risk)
		}
	}
}

func TestTime(t *testing.T) {
	if At(time.Time{}) != 0 || !Time(0).Std().IsZero() {
		t.Error("the zero time.Time is not the zero Time")
	}
	at := time.UnixMilli(1700000000123)
	if got := At(at); got != 1700000000123 || !got.Std().Equal(at) {
		t.Errorf("At(%v) = %d, and back %v", at, got, got.Std())
	}
	for _, tt := range []struct {
		t    Time
		d    time.Duration
		want Time
	}{
		{5, 0, 5}, {5, time.Second, 1005}, {5, -time.Second, -995}, {5, time.Microsecond, 5},
		{math.MaxInt64 - 1, time.Second, math.MaxInt64},
		{1000, math.MaxInt64, 1000 + math.MaxInt64/1_000_000},
	} {
		if got := tt.t.After(tt.d); got != tt.want {
			t.Errorf("Time(%d).After(%s) = %d, want %d", tt.t, tt.d, got, tt.want)
		}
	}
}

// TestLocked has a data directory on a real disk in use by two engines.
func TestLocked(t *testing.T) {
	o := testOptions(nil)
	o.Dir = t.TempDir()
	e := openQuiet(t, o)
	if _, err := Open(o); !errors.Is(err, ErrLocked) {
		t.Errorf("second Open = %v, want ErrLocked", err)
	}
	mustPut(t, e, "q", "a")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	again := openQuiet(t, o)
	wantItems(t, again, "q", "a")
	if got := again.Recovery(); got.Queues != 1 || got.Items != 1 || got.Journal.Segments == 0 {
		t.Errorf("Recovery = %+v, want 1 queue with 1 item", got)
	}
}

func TestValidateName(t *testing.T) { // reference §4.1
	for _, tt := range []struct {
		name   string
		reason string // "" if it is legal
	}{
		{"work", ""},
		{"Work-2_x", ""},
		{"a b", ""},
		{"tab\tand\x01control", ""},
		{"jobs+client", ""},
		{"a+b+c", ""},
		{"+x", ""},
		{"x+", ""},
		{"é!\"§$%&()=?", ""},
		{strings.Repeat("x", MaxNameSize), ""},
		{"", "is empty"},
		{strings.Repeat("x", MaxNameSize+1), "is longer than 255 bytes"},
		{strings.Repeat("é", MaxNameSize/2+1), "is longer than 255 bytes"},
		{"a.b", "contains illegal characters (one of: ~ . / NUL)"},
		{"a/b", ""},
		{"a/b/c", "contains illegal characters (one of: ~ . / NUL)"},
		{"/b", "contains illegal characters (one of: ~ . / NUL)"},
		{"a~", "contains illegal characters (one of: ~ . / NUL)"},
		{"a\x00b", "contains illegal characters (one of: ~ . / NUL)"},
		{"+", "consists of + only"},
		{"+++", "consists of + only"},
		{"\xff", "is not UTF-8"},
	} {
		err := ValidateName(tt.name)
		if tt.reason == "" {
			if err != nil {
				t.Errorf("ValidateName(%q) = %v, want nil", tt.name, err)
			}
			continue
		}
		var bad *NameError
		if !errors.As(err, &bad) || bad.Reason != tt.reason || !errors.Is(err, ErrBadName) {
			t.Errorf("ValidateName(%q) = %v, want that it %s", tt.name, err, tt.reason)
		}
	}
}

// TestNamesSurvive puts to names with all kinds of bytes and finds them again.
func TestNamesSurvive(t *testing.T) {
	e, fsys := newQuiet(t)
	names := []string{"a b", "tab\tx", "é", "p+c", "+x", "x+", strings.Repeat("x", MaxNameSize)}
	for _, name := range names {
		mustPut(t, e, name, "item of "+name)
	}
	e = openQuiet(t, testOptions(fsys.Kill()))
	for _, name := range names {
		wantItems(t, e, name, "item of "+name)
	}
}
