package main

import (
	"bytes"
	"errors"
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
	// timedSlack is how much sooner than it should something may end: the server's clock has milliseconds.
	timedSlack = 5 * time.Millisecond
	// turnSlack is that of what begins with a turn of an event loop. The time of a turn is that of its beginning, and
	// on a busy machine a turn may wait for a processor.
	turnSlack = 250 * time.Millisecond
	// idleTries is how often the lab begins again because its connection was idle for too long. On a busy machine it
	// may be the lab that waits for a processor.
	idleTries = 5
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
	life    int // which server this is of those that use its data directory
	running sync.WaitGroup
	ending  atomic.Bool // the server is about to be killed
}

// took checks how long something took that began between two times, and has just ended. It may have ended
// sooner by slack.
func (d *timed) took(what string, want, slack time.Duration, sent, begun time.Time) {
	d.t.counts.checks.Add(1)
	if took := time.Since(sent); took < want-slack {
		d.t.violate("%s took %v, not %v", what, took, want)
	}
	if took := time.Since(begun); took > want+timedDelay {
		d.t.violate("%s took %v, not %v", what, took, want)
	}
}

func timedBody(int) []byte { return []byte("an item") }

// patiently does something again, a few times, if the server has closed its connection. Then the client had no
// processor, and was idle for longer than idleTimeout.
func patiently(s *server, do func() error) (err error) {
	for range idleTries {
		if err = do(); !errors.Is(err, io.EOF) || !s.running() {
			return err
		}
	}
	return err
}

// alone checks what can be seen only while the server does nothing else. That is the grace period of a change of
// status, and that a periodic sync comes.
func (d *timed) alone(rng *rand.Rand) error {
	if rng.IntN(2) == 0 {
		if err := patiently(d.s, d.periodic); err != nil {
			return err
		}
	}
	if err := patiently(d.s, d.grace); err != nil {
		return err
	}
	_, err := d.askOnce(request{op: opFlush, queue: "periodic"})
	return err
}

// askOnce sends a request on a connection of its own.
func (d *timed) askOnce(r request) (answer, error) {
	c, err := dial(d.s, "memcache")
	if err != nil {
		return answer{}, err
	}
	defer c.conn.Close()
	return c.ask(r, timedBody)
}

func putPeriodic() request { return request{op: opPut, queue: "periodic", items: []int{1}} }

// periodic checks that a put is followed by a periodic sync.
func (d *timed) periodic() error {
	begun := time.Now()
	before, err := d.syncs()
	if err != nil {
		return err
	}
	if _, err := d.askOnce(putPeriodic()); err != nil {
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
	return nil
}

// grace checks how long it takes until a change of status refuses puts.
func (d *timed) grace() error {
	c, err := dial(d.s, "memcache")
	if err != nil {
		return err
	}
	defer c.conn.Close()
	if err := c.command("status up\r\n"); err != nil { // it may be the second try
		return err
	}
	sent := time.Now()
	if err := c.command("status readonly\r\n"); err != nil {
		return err
	}
	begun := time.Now()
	for {
		a, err := c.ask(putPeriodic(), timedBody)
		if err != nil {
			return err
		}
		if a.refusal != "" || time.Since(begun) > gracePeriod+timedDelay {
			break
		}
		time.Sleep(time.Millisecond)
	}
	d.took("the grace period", gracePeriod, turnSlack, sent, begun)
	again, err := dial(d.s, "memcache") // the refusal has ended the first connection
	if err != nil {
		return err
	}
	defer again.conn.Close()
	return again.command("status up\r\n")
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
	for _, check := range []func(*rand.Rand) error{d.wait, d.wait, d.deadline, d.idle} {
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
		r := request{op: opGet, queue: "nothing", count: 1, wait: 1 + rng.Int32N(800)}
		sent := time.Now()
		if _, err := c.ask(r, timedBody); err != nil {
			return err
		}
		d.took("a wait", time.Duration(r.wait)*time.Millisecond, turnSlack, sent, sent)
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
	// A queue of its own: a lease that the last server left may lapse at any time of this one's clock.
	queue := fmt.Sprint("abandoned-", d.life)
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
		d.took("the time to confirm", time.Duration(millis)*time.Millisecond, timedSlack, sent, begun)
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
	d.took("the time of an idle client", idleTimeout, turnSlack, sent, begun)
	return nil
}
