package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// look starts a server on a copy of what was left and takes everything out of it.
func (w *world) look(how crash) bool {
	found, err := w.contents(w.fs.Kill(), false)
	if err != nil {
		w.ledger.mu.Lock()
		w.ledger.frozen = false
		w.ledger.violate("start", "after a %s: %v", how, err)
		w.ledger.mu.Unlock()
		return false
	}
	w.ledger.examine(found, how)
	return !w.failed()
}

// contents returns what is in a data directory: first what is in line, and then what was aside, when all of it
// is due. While the server lives on, its clock is not set: then all must be due already.
func (w *world) contents(fs *segmenttest.FS, live bool) (contents, error) {
	d := newDisk(fs, Speed{}, 0, nil)
	d.rest(lookCalls)
	found := make(contents)
	aside, err := w.takeOut(d, found)
	if err != nil || aside == 0 {
		return found, err
	}
	if live && !w.ledger.stepped {
		return nil, fmt.Errorf("%d items are delayed or leased", aside)
	}
	defer w.setClock(w.clock)
	ahead := 10 * maxLease
	if w.ledger.stepped { // what was due is so by the clock as it was
		ahead += 100 * 24 * time.Hour
	}
	w.setClock(w.clock + ahead)
	later := make(contents)
	aside, err = w.takeOut(d, later)
	for queue, all := range later {
		for _, h := range all {
			h.late = true
			found[queue] = append(found[queue], h)
		}
	}
	if err == nil && aside > 0 {
		err = fmt.Errorf("%d items are delayed or leased for longer than %v", aside, maxLease)
	}
	return found, err
}

// takeOut opens an engine on a disk and takes out what is in line. It returns how many items are aside.
func (w *world) takeOut(d *disk, found contents) (aside int64, err error) {
	o := w.options(d)
	o.SweepInterval, o.MemoryLimit = 0, 1<<30
	e, err := engine.Open(o)
	if err != nil {
		return 0, err
	}
	defer e.Close()
	var names []string
	for _, q := range e.Queues(engine.Now()) {
		names = append(names, q.Name)
	}
	slices.Sort(names)
	for _, last := range []string{"dead", deadLetterQueue} { // others expire into it, or give up into it
		if i := slices.Index(names, last); i >= 0 {
			names = slices.Delete(names, i, i+1)
		}
		if _, ok := o.Settings.Aliases[last]; !ok {
			names = append(names, last)
		}
	}
	for more := true; more; { // until nothing comes any more: what expires may be on its way
		more = false
		for _, name := range names {
			if _, ok := o.Settings.Aliases[name]; ok {
				continue
			}
			all, err := takeAll(e, d, name)
			if err != nil {
				return 0, fmt.Errorf("read queue %s: %w", name, err)
			}
			if w.ledger.traced != nil {
				for _, h := range all {
					w.ledger.traced("%s: there is %.20q in %s, delivery %d", since(time.Now()), h.data, name, h.deliveries)
				}
			}
			if len(all) > 0 {
				found[name], more = append(found[name], all...), true
			}
		}
		time.Sleep(time.Millisecond)
		aside = 0
		for _, q := range e.Queues(engine.Now()) {
			aside += q.Delayed + q.Leased
			_, hidden := o.Settings.Aliases[q.Name]
			more = more || !hidden && q.Items > q.Delayed // a lease has lapsed since
		}
	}
	return aside, e.Verify()
}

// everything is an engine.Receiver that keeps copies.
type everything struct {
	items    []handed
	delivery engine.Delivery
}

func (r *everything) Receive(it engine.Item) bool {
	r.items = append(r.items, handed{data: append([]byte(nil), it.Data...), deliveries: r.delivery.Deliveries})
	return true
}

func takeAll(e *engine.Engine, d *disk, name string) ([]handed, error) {
	var r everything
	f := engine.FetchRequest{Delivery: &r.delivery}
	for range 1_000_000 {
		if d.ranAway() {
			return nil, fmt.Errorf("more than %d calls of the disk were made for it", lookCalls)
		}
		var got engine.Fetched
		err := e.FetchMany(engine.Now(), []byte(name), &f, 100, &r, nil, &got)
		switch {
		case err == nil:
		case errors.Is(err, engine.ErrComing):
			time.Sleep(time.Millisecond)
		case errors.Is(err, engine.ErrEmpty):
			return r.items, nil
		default:
			return r.items, err
		}
	}
	return r.items, errors.New("it does not become empty")
}
