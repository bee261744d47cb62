package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
)

// manyClientsWait is how long its consumers wait for an item at a time.
const manyClientsWait = time.Second

// ManyClients has one producer put an item every so often, and many consumers wait for it.
type ManyClients struct {
	Sleep    time.Duration // between puts
	Items    int64
	Size     int // bytes
	Queue    string
	Clients  int
	Kill     int  // percent of requests after which a consumer breaks its connection; implies Reliable
	Reliable bool // reads are confirmed
}

// Name returns the scenario's name.
func (ManyClients) Name() string { return "many-clients" }

// Length returns how long the scenario is meant to take at least.
func (s ManyClients) Length() time.Duration { return time.Duration(s.Items) * s.Sleep }

// Validate reports every problem of the options.
func (s ManyClients) Validate() error {
	var errs []error
	checkQueue(&errs, s.Queue)
	checkSize(&errs, s.Size)
	positive(&errs, "clients", int64(s.Clients))
	positive(&errs, "items", s.Items)
	if s.Sleep < 0 {
		errs = append(errs, fmt.Errorf("sleep is %v, want at least 0", s.Sleep))
	}
	if s.Kill < 0 || s.Kill > 99 {
		errs = append(errs, fmt.Errorf("kill is %d %%, want 0 to 99", s.Kill))
	}
	return errors.Join(errs...)
}

func (s ManyClients) queues() []string { return []string{s.Queue} }

func (s ManyClients) run(ctx context.Context, e *Env) error {
	if e.ledger == nil {
		return errors.New("many-clients needs verification to know when every item has come")
	}
	e.printf("many-clients: %d items to %s using %d clients, kill rate %d%%, at %d msec/item", s.Items,
		e.Server, s.Clients, s.Kill, s.Sleep.Milliseconds())
	put := loadtest.Group{Operations: s.Items, Queue: s.Queue, ItemSize: s.Size}
	if s.Sleep > 0 {
		put.Rate = 1 / s.Sleep.Seconds()
	}
	get := loadtest.Group{
		Operation:   loadtest.Get,
		Connections: s.Clients,
		Queue:       s.Queue,
		ItemSize:    s.Size,
		Wait:        manyClientsWait,
		Drain:       true,
		Kill:        float64(s.Kill) / 100,
	}
	if s.Reliable || s.Kill > 0 {
		get.Operation = loadtest.CloseOpen
	}
	r, err := e.runPhase(ctx, phase{
		name: "put and get", groups: []loadtest.Group{put, get}, queues: s.queues()})
	if r.Retries > 0 {
		e.printf("Had to retry %d times to make all connections.", r.Retries)
	}
	if err != nil {
		return err
	}
	e.printf("Received %d items in %d msec.", r.Got(), r.Wall.Milliseconds())
	return e.allGot()
}
