package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kestrelmq/kestrel/codec/thrift"
)

const (
	gracePeriod = 300 * time.Millisecond
	idleTimeout = 2 * time.Second
	syncPeriod  = 200 * time.Millisecond
	// timedSlack is how much sooner than it should something may end: the server's clock has
	// milliseconds, and the time of a turn is that of its beginning.
	timedSlack = 5 * time.Millisecond
	// timedDelay is how much later it may end, on a machine that is busy.
	timedDelay = 10 * time.Second
)

// timedConfig makes a server do things that take a time.
var timedConfig = fmt.Sprintf(`client_timeout = %q
status_change_grace_period = %q
[queues.periodic]
sync_journal = %q
`, idleTimeout, gracePeriod, syncPeriod)

// timed asks a server for what takes a time, and checks that it takes as long.
type timed struct {
	t       *trial
	s       *server
	laws    *laws
	running sync.WaitGroup
	ending  atomic.Bool // the server is about to be killed
}

// took checks how long something took that began between two times and ended between two others.
func (d *timed) took(what string, want time.Duration, sent, begun time.Time) {
	d.t.counts.checks.Add(1)
	if took := time.Since(sent); took < want-timedSlack {
		d.t.violate("%s took %v, not %v", what, took, want)
	}
	if took := time.Since(begun); took > want+timedDelay {
		d.t.violate("%s took %v, not %v", what, took, want)
	}
}

func timedBody(int) []byte { return []byte("an item") }

// alone checks what can be seen only while the server does nothing else: the grace period of a change
// of status, and that a periodic sync comes.
func (d *timed) alone(rng *rand.Rand) error {
	c, err := dial(d.s, "memcache")
	if err != nil {
		return err
	}
	defer c.conn.Close()
	put := request{op: opPut, queue: "periodic", items: []int{1}}
	if rng.IntN(2) == 0 {
		begun := time.Now()
		before, err := d.syncs()
		if err != nil {
			return err
		}
		if _, err := c.ask(put, timedBody); err != nil {
			return err
		}
		for now := before; now == before; {
			if time.Since(begun) > syncPeriod+timedDelay {
				d.t.violate("a sync that is due every %v has not come for %v", syncPeriod, time.Since(begun))
				return nil
			}
			time.Sleep(syncPeriod / 10)
			if now, err = d.syncs(); err != nil {
				return err
			}
		}
		d.t.counts.checks.Add(1)
	}
	sent := time.Now()
	if err := c.command("status readonly\r\n"); err != nil {
		return err
	}
	begun := time.Now()
	for {
		a, err := c.ask(put, timedBody)
		if err != nil {
			return err
		}
		if a.refusal != "" || time.Since(begun) > gracePeriod+timedDelay {
			break
		}
		time.Sleep(time.Millisecond)
	}
	d.took("the grace period", gracePeriod, sent, begun)
	again, err := dial(d.s, "memcache") // the refusal has ended the first connection
	if err != nil {
		return err
	}
	defer again.conn.Close()
	if err := again.command("status up\r\n"); err != nil {
		return err
	}
	_, err = again.ask(request{op: opFlush, queue: "periodic"}, timedBody)
	return err
}

// command sends a line to a memcache port that is answered with END.
func (c *client) command(line string) error {
	if _, err := io.WriteString(c.conn, line); err != nil {
		return err
	}
	for !bytes.Contains(c.in, []byte("\r\n")) {
		if err := c.fill(); err != nil {
			return err
		}
	}
	if got := string(c.in); got != "END\r\n" {
		return fmt.Errorf("%q is answered %q", line, got)
	}
	c.in = nil
	return nil
}

var syncsMade = regexp.MustCompile(`(?m)^kestrel_journal_sync_late_seconds_count (\S+)$`)

// syncs returns how many periodic syncs the server has done.
func (d *timed) syncs() (float64, error) {
	metrics, err := d.laws.metrics()
	if err != nil {
		return 0, err
	}
	m := syncsMade.FindSubmatch(metrics)
	if m == nil {
		return 0, fmt.Errorf("the metrics do not tell of periodic syncs")
	}
	return number(m[1]), nil
}

// start asks for what takes a time, again and again, until the server is gone.
func (d *timed) start(rng *rand.Rand) {
	for _, check := range []func(*rand.Rand) error{d.wait, d.deadline, d.idle} {
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		d.running.Go(func() {
			for check(own) == nil {
			}
		})
	}
}

// wait waits in vain for an item.
func (d *timed) wait(rng *rand.Rand) error {
	c, err := dial(d.s, "memcache")
	if err != nil {
		return err
	}
	defer c.conn.Close()
	for {
		r := request{op: opGet, queue: "nothing", count: 1, wait: 1 + rng.Int32N(400)}
		sent := time.Now()
		if _, err := c.ask(r, timedBody); err != nil {
			return err
		}
		d.took("a wait", time.Duration(r.wait)*time.Millisecond, sent, sent)
	}
}

// deadline opens an item with a deadline, and waits until it is back.
func (d *timed) deadline(rng *rand.Rand) error {
	owner, err := dial(d.s, "thrift")
	if err != nil {
		return err
	}
	defer owner.conn.Close()
	heir, err := dial(d.s, "memcache")
	if err != nil {
		return err
	}
	defer heir.conn.Close()
	queue := fmt.Sprint("abandoned-", rng.IntN(1000))
	for {
		if _, err := heir.ask(request{op: opPut, queue: queue, items: []int{1}}, timedBody); err != nil {
			return err
		}
		millis := 1 + rng.Int32N(400)
		frame := thrift.Client{}.AppendGet(nil, 1, []byte(queue),
			thrift.GetOptions{MaxItems: 1, AutoAbortMillis: millis})
		sent := time.Now()
		if _, err := owner.conn.Write(frame); err != nil {
			return err
		}
		a, err := owner.receive(request{op: opOpen, queue: queue})
		if err != nil {
			return err
		}
		begun := time.Now()
		patient := request{op: opGet, queue: queue, count: 1, wait: int32(2 * timedDelay / time.Millisecond)}
		back, err := heir.ask(patient, timedBody)
		if err != nil {
			return err
		}
		if len(a.items) != 1 || len(back.items) != 1 {
			d.t.violate("of one item %d were opened and %d came back", len(a.items), len(back.items))
			return nil
		}
		d.took("the time to confirm", time.Duration(millis)*time.Millisecond, sent, begun)
	}
}

// idle does nothing until the server closes the connection.
func (d *timed) idle(*rand.Rand) error {
	c, err := dial(d.s, "memcache")
	if err != nil {
		return err
	}
	defer c.conn.Close()
	sent := time.Now()
	if _, err := c.ask(request{op: opGet, queue: "nothing", count: 1}, timedBody); err != nil {
		return err
	}
	begun := time.Now()
	if err := c.fill(); err != io.EOF || d.ending.Load() {
		return fmt.Errorf("the connection ended: %w", err)
	}
	d.took("the time of an idle client", idleTimeout, sent, begun)
	return nil
}
