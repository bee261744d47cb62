package engine

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// spilledQueue returns a disk with a backlog of "q", in one run, and with "other"; what "q" holds; and
// the run's file.
func spilledQueue(t *testing.T) (fsys *segmenttest.FS, want []string, file string) {
	t.Helper()
	e, fsys := newQuiet(t, tiny)
	mustPut(t, e, "other", "precious")
	want = putMany(t, e, "q", 0, 40)
	awaitRuns(e)
	for range 7 { // a start reads the frames of a run of which a part is gone
		if got := mustGet(t, e, "q"); got != want[0] {
			t.Fatalf("got %q, want %q", got, want[0])
		}
		want = want[1:]
	}
	files := runFiles(fsys)
	if len(files) != 1 {
		t.Fatalf("the backlog is in %q, want one file", files)
	}
	return fsys.Kill(), want, files[0]
}

// runDamages are ways in which the file of a run is not what the journal says of it.
var runDamages = []struct {
	name   string
	damage func(fsys *segmenttest.FS, file string) error
}{
	{"missing", func(fsys *segmenttest.FS, file string) error { return fsys.Remove(file) }},
	{"cut short", func(fsys *segmenttest.FS, file string) error { return fsys.TruncateFile(file, 200) }},
	{"empty", func(fsys *segmenttest.FS, file string) error { return fsys.TruncateFile(file, 0) }},
	{"another file", func(fsys *segmenttest.FS, file string) error { return fsys.FlipBit(file, 3, 1) }},
	{"unreadable", func(fsys *segmenttest.FS, file string) error {
		fsys.SetFault(func(op segmenttest.Op) (f segmenttest.Fault) {
			if op.Kind == segmenttest.OpReadAt && op.Path == file {
				f.Err = syscall.EIO
			}
			return f
		})
		return nil
	}},
}

// refusals returns what operations on a queue answer.
func refusals(e *Engine, name string) map[string]error {
	all := make(map[string]error)
	_, all["put"] = e.Put(Now(), []byte(name), PutRequest{Data: []byte("x")})
	_, all["puts"] = e.PutAll(Now(), []byte(name), []PutRequest{{Data: []byte("x")}, {Data: []byte("y")}})
	for _, access := range []Access{Take, OpenRead, Peek} {
		_, all[fmt.Sprint("fetch ", access)] = e.Fetch(Now(), []byte(name), FetchRequest{Access: access}, &copied{})
	}
	_, all["flush"] = e.Flush(Now(), []byte(name), "")
	_, all["create"] = e.Create(Now(), []byte(name))
	c := e.Deleting([]byte(name))
	for c.Do(Now(), 1) {
	}
	_, _, all["delete"] = c.Result()
	return all
}

// TestWithheld: a start that meets a run that is not what the journal says serves the other queues, and refuses
// whatever needs that one. Nothing of that queue goes, however long the server runs. When a good file is in its place
// again, or after a repair, a start serves it.
func TestWithheld(t *testing.T) {
	for _, tt := range runDamages {
		t.Run(tt.name, func(t *testing.T) {
			fsys, want, file := spilledQueue(t)
			good := dumpOf(fsys)[file]
			if err := tt.damage(fsys, file); err != nil {
				t.Fatal(err)
			}
			left := dumpOf(fsys)[file]
			var out bytes.Buffer
			o := testOptions(fsys, tiny)
			o.Logger, o.JournalSize = slog.New(slog.NewTextHandler(&out, nil)), 8192
			e := openQuiet(t, o)
			all := e.Withheld()
			if len(all) != 1 || all[0].Name != "q" || !strings.Contains(all[0].Reason.Error(), file) ||
				e.Stats().Withheld != 1 || e.Stats().Queues != 1 {
				t.Errorf("withheld are %+v, want q because of %s", all, file)
			}
			if got := out.String(); strings.Count(got, "queue is withheld: the server refuses") != 1 || !strings.Contains(got, file) {
				t.Errorf("the start logs %s", got)
			}
			for what, err := range refusals(e, "q") {
				if !errors.Is(err, ErrWithheld) {
					t.Errorf("%s = %v, want ErrWithheld", what, err)
				}
			}
			wantItems(t, e, "other", "precious")
			for range 4 {
				turnOver(t, e)
				e.boundJournal()
				awaitRuns(e)
			}
			putMany(t, e, "more", 0, 40)
			awaitRuns(e)
			if err := e.moveJournal(); !errors.Is(err, ErrWithheld) {
				t.Errorf("moveJournal = %v, want ErrWithheld", err)
			}
			if got := dumpOf(fsys)[file]; got != left {
				t.Errorf("the file of the run has changed from %d to %d bytes", len(left), len(got))
			}
			again := fsys.Kill()
			if slices.Contains(again.Paths(), file) {
				if err := again.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			repaired := again.Kill()
			writeFile(t, again, file, good)
			e = openQuiet(t, testOptions(again, tiny))
			if got := drain(t, e, "q"); !slices.Equal(got, want) {
				t.Errorf("with the file in its place q holds %q, want %q", got, want)
			}
			if got := drain(t, e, "more"); len(got) != 40 {
				t.Errorf("a queue that was made meanwhile holds %d items, want 40", len(got))
			}
			e = openQuiet(t, testOptions(repairAll(t, repaired), tiny))
			if all := e.Withheld(); len(all) != 0 {
				t.Errorf("after a repair %+v is withheld", all)
			}
			mustPut(t, e, "q", "new")
			if got := drain(t, e, "q"); len(got) == 0 || got[len(got)-1] != "new" {
				t.Errorf("after a repair q holds %q", got)
			}
		})
	}
}

func repairAll(t *testing.T, fsys *segmenttest.FS) *segmenttest.FS {
	t.Helper()
	d, err := Examine(testOptions(fsys))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Repair(), d.Close()); err != nil {
		t.Fatal(err)
	}
	return fsys
}

func writeFile(t *testing.T, fsys *segmenttest.FS, name, data string) {
	t.Helper()
	f, err := fsys.Create(name)
	if err == nil {
		_, err = f.WriteAt([]byte(data), 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestWithheldChild: a put to the parent of a fanout child that is withheld is refused, for the child would miss it.
// What the parent holds is served.
func TestWithheldChild(t *testing.T) {
	e, fsys := newQuiet(t)
	mustPut(t, e, "q", "before")
	keep := DefaultQueueOptions()
	tiny(&keep)
	settings := Settings{Default: DefaultQueueOptions(), Queues: map[string]QueueOptions{"q+child": keep}}
	if err := e.Reload(settings); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Create(Now(), []byte("q+child")); err != nil {
		t.Fatal(err)
	}
	putMany(t, e, "q", 0, 40)
	awaitRuns(e)
	mustPut(t, e, "other", "x") // what the spool has recorded is written with it
	image := fsys.Kill()
	for _, file := range runFiles(image) {
		if err := image.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	e = openQuiet(t, testOptions(image))
	child, err := e.Queue("q+child")
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Delete(); !errors.Is(err, ErrWithheld) {
		t.Errorf("Delete = %v, want ErrWithheld", err)
	}
	if _, err := child.FlushExpired(); !errors.Is(err, ErrWithheld) {
		t.Errorf("FlushExpired = %v, want ErrWithheld", err)
	}
	if _, err := e.Put(Now(), []byte("q"), PutRequest{}); !errors.Is(err, ErrWithheld) {
		t.Errorf("Put = %v, want ErrWithheld", err)
	}
	if got := mustGet(t, e, "q"); got != "before" {
		t.Errorf("the parent gave %q", got)
	}
	drain(t, e, "q")
	mustCommit(t, e, e.Delete(Now(), []byte("q")))
	if _, err := e.Put(Now(), []byte("q"), PutRequest{}); !errors.Is(err, ErrWithheld) {
		t.Errorf("when the parent is made again, Put = %v, want ErrWithheld", err)
	}
}

// TestWithheldTwice: of queues of one name, which no journal should have, none is served.
func TestWithheldTwice(t *testing.T) {
	e, _ := newQuiet(t)
	r := newRevival(e, nil)
	f := segment.Frame{Payload: records(t, "queue 1, put 1, queue 1@2:q, put 1@2"), Segment: 1}
	if err := r.frame(f); err != nil {
		t.Fatal(err)
	}
	if queues, _, err := r.finish(); err != nil || queues != 0 {
		t.Errorf("%d queues are served, %v", queues, err)
	}
	if all := e.Withheld(); len(all) != 2 || all[0].Name != "q" || all[1].Name != "q" {
		t.Errorf("withheld are %+v, want q twice", all)
	}
}

// TestWithheldNotForWantOfFiles: a start that has no descriptor to look at runs with fails, rather than
// to withhold what is whole.
func TestWithheldNotForWantOfFiles(t *testing.T) {
	fsys, want, file := spilledQueue(t)
	fsys.SetFault(func(op segmenttest.Op) (f segmenttest.Fault) {
		if op.Path == file {
			f.Err = syscall.EMFILE
		}
		return f
	})
	before := dumpOf(fsys)
	if e, err := open(testOptions(fsys, tiny)); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("Open = %v, %v, want EMFILE", e, err)
	}
	fsys.SetFault(nil)
	if !maps.Equal(before, dumpOf(fsys)) {
		t.Error("Open changed the directory")
	}
	if got := drain(t, openQuiet(t, testOptions(fsys, tiny)), "q"); !slices.Equal(got, want) {
		t.Errorf("q holds %q, want %q", got, want)
	}
}

// TestWithheldTarget tests items that expire into a withheld queue. They must not make another queue of its name,
// since no later start could tell the two apart.
func TestWithheldTarget(t *testing.T) {
	fsys, want, file := spilledQueue(t)
	good := dumpOf(fsys)[file]
	if err := fsys.Remove(file); err != nil {
		t.Fatal(err)
	}
	o := testOptions(fsys, tiny)
	expiring := o.Settings.Default
	expiring.ExpireTo = "q"
	o.Settings.Queues = map[string]QueueOptions{"from": expiring}
	e := openQuiet(t, o)
	ticket, err := e.Put(Now(), []byte("from"), PutRequest{Data: []byte("x"), Expiry: 1})
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, e, ticket)
	_, ticket = e.FlushExpired(Now(), []byte("from"))
	mustCommit(t, e, ticket)
	again := fsys.Kill()
	writeFile(t, again, file, good)
	if got := drain(t, openQuiet(t, testOptions(again, tiny)), "q"); !slices.Equal(got, want) {
		t.Errorf("q holds %q, want %q", got, want)
	}
}
