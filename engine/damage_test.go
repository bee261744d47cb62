package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// lived is a data directory at rest, and every state that its queues have been in.
type lived struct {
	disk   *segmenttest.FS
	opts   Options
	states []string // words; the last is the one at rest
}

// live puts to queues of a directory and takes from them, with a fanout family among them. It goes on until the
// journal has had several segments, and has dropped some. It ends by Close or as kill -9 does.
func live(t *testing.T, clean bool) *lived {
	t.Helper()
	fsys := segmenttest.New()
	l := &lived{opts: testOptions(fsys)}
	l.opts.SegmentSize = 1024
	e, err := open(l.opts)
	if err != nil {
		t.Fatal(err)
	}
	note := func() { l.states = append(l.states, stateOf(e)) }
	note()
	mustGetNothing(t, e, "f+x")
	note()
	for i := range 24 {
		mustPut(t, e, []string{"a", "f", "b"}[i%3], fmt.Sprintf("item %d", i))
		note()
		if i%4 == 3 {
			mustGet(t, e, []string{"a", "f+x"}[i/4%2])
			note()
		}
		if i == 16 {
			if err := e.trimJournal(); err != nil {
				t.Fatal(err)
			}
			note()
		}
	}
	l.leaveAside(t, e, note)
	l.disk = fsys.Kill()
	if clean {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		l.disk = fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Keep})
	} else if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return l
}

// leaveAside has the queues of a directory hold a delay, a lease, a count, an item that was overwritten, and a dead
// letter.
func (l *lived) leaveAside(t *testing.T, e *Engine, note func()) {
	t.Helper()
	put := func(body string, x PutExtra) {
		ticket, err := e.Put(Now(), []byte("a"), PutRequest{Data: []byte(body), Extra: &x})
		if err := errors.Join(err, e.Commit(ticket)); err != nil {
			t.Fatal(err)
		}
		note()
	}
	put("delayed", PutExtra{Delay: time.Hour, Key: []byte("b")})
	put("with a key", PutExtra{Key: []byte("a")})
	put("in its place", PutExtra{Key: []byte("a")})
	for _, how := range []ReturnKind{Abort, Reject, Lost} {
		_, about, err := leaseNext(e, "b", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if note(); how == Lost { // that one stays leased
			break
		}
		ticket, err := e.ReturnLease(Now(), []byte("b"), about.Receipt, Return{How: how})
		if err := errors.Join(err, e.Commit(ticket)); err != nil {
			t.Fatal(err)
		}
		note()
	}
	for _, word := range []string{"b_dead", "key \"a\"", "key \"b\"", "State:"} {
		if !strings.Contains(stateOf(e), word) {
			t.Fatalf("%q is not in\n%s", word, stateOf(e))
		}
	}
}

func mustGetNothing(t *testing.T, e *Engine, name string) {
	t.Helper()
	if data, ok := tryGet(t, e, name); ok {
		t.Fatalf("get %s = %q, want nothing", name, data)
	}
}

// judge opens a damaged image and returns whether it is refused, and what is wrong with what becomes of it. Open must
// refuse it as damaged, and leave it as it is. Otherwise the queues must be in a state that they have been in: the last
// one, unless Open says that the journal is torn.
func (l *lived) judge(image *segmenttest.FS, clean bool) (refused bool, wrong error) {
	before := dumpOf(image)
	o := l.opts
	o.FS = image
	e, err := open(o)
	if err != nil {
		var damage *segment.CorruptionError
		if !errors.As(err, &damage) || !errors.Is(err, segment.ErrCorrupt) || damage.Path == "" {
			return true, fmt.Errorf("Open = %w, want a CorruptionError that says where", err)
		}
		if !maps.Equal(before, dumpOf(image)) {
			return true, errors.New("Open changed a damaged directory")
		}
		return true, nil
	}
	defer e.Close()
	if err := e.Verify(); err != nil {
		return false, err
	}
	state, torn := stateOf(e), e.Recovery().Journal.Tear != nil
	at := slices.Index(l.states, state)
	switch last := len(l.states) - 1; {
	case at < 0:
		return false, fmt.Errorf("served\n%s\nwhich the queues have never held", state)
	case at < last && !torn:
		return false, fmt.Errorf("served state %d of %d, and did not say that it is torn", at, last)
	case at < last && clean:
		return false, fmt.Errorf("served state %d of %d of a journal that was closed", at, last)
	}
	return false, nil
}

func dumpOf(image *segmenttest.FS) map[string]string {
	files := make(map[string]string)
	for _, name := range image.Paths() {
		b, err := image.Bytes(name)
		if err != nil {
			panic(err)
		}
		files[name] = string(b)
	}
	return files
}

// TestDamage flips one bit of every byte of a small data directory, cuts every file at every
// length, and takes every file away.
//
// The control has the judge forget the last state: it must say that what is served was never there.
func TestDamage(t *testing.T) {
	for _, clean := range []bool{true, false} {
		l := live(t, clean)
		files := dumpOf(l.disk)
		tried, refused := 0, 0
		try := func(what string, damage func(*segmenttest.FS) error) {
			image := l.disk.Kill()
			if err := damage(image); err != nil {
				t.Fatal(err)
			}
			refuses, wrong := l.judge(image, clean)
			if wrong != nil {
				t.Errorf("closed %t, %s: %v", clean, what, wrong)
			}
			if tried++; refuses {
				refused++
			}
		}
		for name, data := range files {
			for off := int64(0); off < int64(len(data)); off += sampled[int64](5, 1) {
				try(fmt.Sprintf("bit flipped at %d of %s", off, name), func(image *segmenttest.FS) error {
					return image.FlipBit(name, off, uint(off*5)%8)
				})
				try(fmt.Sprintf("%s cut to %d bytes", name, off), func(image *segmenttest.FS) error {
					return image.TruncateFile(name, off)
				})
			}
			try(name+" gone", func(image *segmenttest.FS) error { return image.Remove(name) })
		}
		t.Logf("closed %t: %d damages, %d refused", clean, tried, refused)
		if len(files) < 3 || refused < tried/4 {
			t.Errorf("the directory %q lacks variety", l.disk.Paths())
		}
		l.states = l.states[:len(l.states)-1]
		if _, wrong := l.judge(l.disk.Kill(), clean); wrong == nil {
			t.Error("the judge accepts a state that the queues have never been in")
		}
	}
}

// TestBacklogDamage flips one bit of every byte of a small directory with a backlog. It also cuts every file at every
// length, or with -short at every third. Either Open refuses and changes nothing, or the items served are right until
// the queue says that it cannot be read on. Nothing is missing beyond a torn tail of the journal.
func TestBacklogDamage(t *testing.T) {
	e, fsys := newQuiet(t, tiny)
	want := putMany(t, e, "q", 0, 40)
	spoolAll(e)
	for range 7 {
		mustGet(t, e, "q")
	}
	e.spool.tend()
	spoolAll(e)
	mustPut(t, e, "other", "x")
	want = want[7:]
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	tried, refused, met, stride := 0, 0, 0, amount(sampled[int64](9, 3), 1, 1)
	try := func(what string, damage func(*segmenttest.FS) error) {
		image := fsys.Kill()
		if err := damage(image); err != nil {
			t.Fatal(err)
		}
		tried++
		before := dumpOf(image)
		e, err := open(testOptions(image, tiny))
		if err != nil {
			refused++
			if after := dumpOf(image); !errors.Is(err, segment.ErrCorrupt) || len(after) != len(before) {
				t.Errorf("%s: Open = %v", what, err)
			}
			return
		}
		defer e.Close()
		got, err := drainAll(e)
		if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Errorf("%s: served %q, want a part of what was put", what, got)
		}
		if err != ErrEmpty {
			met++
		} else if len(got) < len(want) && e.Recovery().Journal.Tear == nil {
			t.Errorf("%s: served %d items of %d, and said nothing", what, len(got), len(want))
		}
	}
	for name, data := range dumpOf(fsys) {
		if name == "data/LOCK" {
			continue
		}
		for off := int64(0); off < int64(len(data)); off += stride {
			try(fmt.Sprintf("bit flipped at %d of %s", off, name), func(image *segmenttest.FS) error {
				return image.FlipBit(name, off, uint(off*5)%8)
			})
			if strings.HasSuffix(name, runs.Ext) {
				try(fmt.Sprintf("%s cut to %d bytes", name, off), func(image *segmenttest.FS) error {
					return image.TruncateFile(name, off)
				})
			}
		}
	}
	t.Logf("%d damages: %d refused, %d reported when they were met", tried, refused, met)
	if least := 500 / int(stride); refused < least || met < least {
		t.Errorf("%d damages: %d refused, %d reported later; the directory lacks variety", tried, refused, met)
	}
}

// drainAll takes everything out of "q" that can be read, and returns why there is no more.
func drainAll(e *Engine) (all []string, err error) {
	for {
		var c copied
		_, err := e.Fetch(Now(), []byte("q"), FetchRequest{}, &c)
		switch {
		case err == ErrComing:
			spoolAll(e)
		case err != nil:
			return all, err
		default:
			all = append(all, string(c.item.Data))
		}
	}
}
