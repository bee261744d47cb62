package engine

import (
	"errors"
	"reflect"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

func TestSyncErrors(t *testing.T) {
	e, fsys := newQuiet(t)
	mustPut(t, e, "q", "a")
	if got := e.Stats().SyncErrors; got != nil {
		t.Errorf("SyncErrors = %v before any", got)
	}
	fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpDatasync, 0, syscall.EIO))
	ticket, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte("b")})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Commit(ticket); !errors.Is(err, ErrJournal) {
		t.Errorf("Commit with a failing sync = %v, want ErrJournal", err)
	}
	if got := e.Stats().SyncErrors["EIO"]; got != 1 {
		t.Errorf("SyncErrors = %v, want one EIO", e.Stats().SyncErrors)
	}
	if err := e.Close(); !errors.Is(err, segment.ErrPoisoned) {
		t.Errorf("Close behind a failed sync = %v, want ErrPoisoned", err)
	}
}

// TestAliasStatsOverReload tests that an alias is counted from when it is known, and anew after it
// was gone.
func TestAliasStatsOverReload(t *testing.T) {
	fsys := segmenttest.New()
	o := testOptions(fsys)
	o.Settings.Aliases = map[string][]string{"a": {"q"}, "b": nil}
	before := Now()
	e := openQuiet(t, o)
	mustPut(t, e, "a", "xyz")
	got := e.Aliases()
	if len(got) != 2 || got[0].Created < before || got[0].Created > Now() {
		t.Fatalf("Aliases = %+v", got)
	}
	want := AliasStats{"a", got[0].Created, []string{"q"}, 1, 3}
	if !reflect.DeepEqual(got[0], want) {
		t.Errorf("Aliases = %+v, want %+v first", got, want)
	}
	s := o.Settings
	s.Aliases = map[string][]string{"b": {"q"}}
	reload := func() {
		if err := e.Reload(s); err != nil {
			t.Fatal(err)
		}
	}
	reload()
	s.Aliases = map[string][]string{"a": {"r"}, "b": {"q"}}
	reload()
	got = e.Aliases()
	if len(got) != 2 || got[0].PutItems != 0 || got[0].Destinations[0] != "r" {
		t.Errorf("Aliases after a was away = %+v", got)
	}
}
