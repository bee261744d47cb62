package admin

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/engine/histogram"
	"github.com/kestrelmq/kestrel/netloop"
)

// counted is a source of totals that the tests of windows change as they like.
type counted struct {
	mu     sync.Mutex
	n      int64
	metric histogram.Counts
	err    error
}

func (c *counted) take() (*totals, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &totals{
		counters: []named[int64]{{"n", c.n}},
		metrics:  []named[*histogram.Counts]{{"m", c.metric.Clone()}},
		gauges:   []named[any]{{"g", c.n}},
	}, c.err
}

func (c *counted) add(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
	c.metric.Record(n, 1)
}

// fail makes take return err from now on.
func (c *counted) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// expect tests what a window holds.
func expect(t *testing.T, what string, got *totals, err error, n, metrics int64) {
	t.Helper()
	if err != nil || got.counters[0].value != n || got.metrics[0].value.Total() != metrics {
		t.Errorf("%s: %+v, %v, want %d counted and %d in the metric", what, got, err, n, metrics)
	}
}

func TestPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counted
		w := newWindows(c.take)
		defer w.close()
		<-time.After(90 * time.Second) // windows of a minute begin at whole minutes
		c.add(5)
		got, err := w.latched(time.Minute)
		expect(t, "the first window holds what came so far", got, err, 5, 1)
		c.add(7)
		<-time.After(29 * time.Second)
		got, err = w.latched(time.Minute)
		expect(t, "until it ends", got, err, 5, 1)
		<-time.After(2 * time.Second)
		got, err = w.latched(time.Minute)
		expect(t, "the next one", got, err, 7, 1)
		if got.gauges[0].value != int64(12) {
			t.Errorf("a gauge is no difference: %v", got.gauges)
		}
		c.add(1)
		c.add(1)
		again, err := w.latched(time.Minute)
		expect(t, "is the same for everybody", again, err, 7, 1)
		<-time.After(time.Minute)
		got, err = w.latched(time.Minute)
		expect(t, "the one after", got, err, 2, 2)
		other, err := w.latched(time.Second)
		expect(t, "another period begins with what came so far", other, err, 14, 4)

		<-time.After(minIdle + time.Minute)
		synctest.Wait()
		if n := len(w.periods); n != 0 {
			t.Errorf("%d periods are kept that nobody asks for", n)
		}
		<-time.After(time.Hour)
		c.fail(errNotReady)
		if _, err := w.latched(time.Minute); !errors.Is(err, errNotReady) {
			t.Errorf("latched = %v, want ErrNotReady", err)
		}
	})
}

func TestPeriodKeepsItsWindowOverErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counted
		w := newWindows(c.take)
		defer w.close()
		c.add(5)
		w.latched(time.Second)
		c.add(1)
		c.fail(errors.New("no totals"))
		<-time.After(1500 * time.Millisecond)
		got, err := w.latched(time.Second)
		expect(t, "the window before", got, err, 5, 1)
		c.fail(nil)
		<-time.After(time.Second)
		got, err = w.latched(time.Second)
		expect(t, "nothing is left out", got, err, 1, 1)
	})
}

func TestTooManyPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindows(new(counted).take)
		defer w.close()
		for i := range maxPeriods {
			if _, err := w.latched(time.Duration(i+1) * time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.latched(time.Hour); err == nil {
			t.Error("there is no limit")
		}
		if _, err := w.latched(time.Second); err != nil {
			t.Errorf("a period in use: %v", err)
		}
	})
}

func TestNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counted
		w := newWindows(c.take)
		c.add(3)
		got, err := w.sinceLast("a")
		expect(t, "first", got, err, 3, 1)
		c.add(4)
		got, err = w.sinceLast("b")
		expect(t, "first of another", got, err, 7, 2)
		got, err = w.sinceLast("a")
		expect(t, "second", got, err, 4, 1)
		got, err = w.sinceLast("a")
		expect(t, "third", got, err, 0, 0)
		for i := range maxNamespaces - 2 {
			w.sinceLast(fmt.Sprint("n", i))
		}
		if _, err := w.sinceLast("one more"); err == nil {
			t.Error("there is no limit")
		}
		<-time.After(namespaceTime + time.Second)
		if _, err := w.sinceLast("one more"); err != nil {
			t.Errorf("forgotten namespaces still count: %v", err)
		}
	})
}

// TestSubtract tests what happens to names that come and go.
func TestSubtract(t *testing.T) {
	list := func(pairs ...any) (l []named[int64]) {
		for i := 0; i < len(pairs); i += 2 {
			l = append(l, named[int64]{pairs[i].(string), int64(pairs[i+1].(int))})
		}
		return l
	}
	now := &totals{counters: list("a", 5, "c", 7, "d", 1, "f", 2)}
	then := &totals{counters: list("a", 2, "b", 9, "d", 4, "e", 1, "g", 1)}
	got := fmt.Sprint(now.since(then).counters)
	if want := fmt.Sprint(list("a", 3, "c", 7, "d", 1, "f", 2)); got != want {
		t.Errorf("since = %s, want %s", got, want)
	}
	if now.counters[0].value != 5 {
		t.Error("since changed what it was given")
	}
}

// TestStatsOverHTTP tests the parameters of stats.
func TestStatsOverHTTP(t *testing.T) {
	tt := start(t, Options{StatsFilters: compile("^q/", "^cmd_")}, netloop.Options{}, defaults())
	tt.put("q", "one")
	if st := tt.stats("/stats?namespace=n"); st.Counters["total_items"] != 1 {
		t.Errorf("first = %v", st.Counters)
	}
	tt.put("q", "two")
	tt.put("new", "three")
	st := tt.stats("/stats?namespace=n")
	if st.Counters["total_items"] != 2 || st.Counters["q/q/put_items"] != 1 ||
		st.Counters["q/new/put_items"] != 1 || st.Gauges["items"] != 3 {
		t.Errorf("second = %v", st.Counters)
	}
	tt.engine.Delete(engine.Now(), []byte("new"))
	st = tt.stats("/stats?namespace=n&filtered=1")
	if len(st.Counters) == 0 || st.Counters["queue_deletes"] != 1 {
		t.Errorf("filtered = %v", st.Counters)
	}
	for name := range st.Counters {
		if name[:2] == "q/" || name[:4] == "cmd_" {
			t.Errorf("%s is not filtered out", name)
		}
	}
	if st := tt.stats("/stats?filtered=1"); st.Counters["q/q/put_items"] != 2 {
		t.Errorf("totals are filtered: %v", st.Counters)
	}
	if _, ok := tt.stats("/stats").Counters["q/new/put_items"]; ok {
		t.Error("a deleted queue is still there")
	}
	if st := tt.stats("/stats?period=60"); st.Counters["total_items"] != 3 {
		t.Errorf("the first window = %v", st.Counters)
	}
	for _, bad := range []string{"period=", "period=0", "period=-1", "period=x", "period=99999999999999999999"} {
		if got := tt.get("/stats?" + bad); got.code != 400 {
			t.Errorf("stats?%s = %d %q", bad, got.code, got.body)
		}
	}
}
