package engine

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// stoodItem is an item of a directory, and how it stands.
type stoodItem struct {
	data, key string
	stands    Standing
}

// standing reads every queue of an image, as a start would find it.
func standing(o Options) (map[string]map[uint64]stoodItem, error) {
	s, err := Inspect(o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.Tear != nil || len(s.Withheld) > 0 {
		return nil, fmt.Errorf("torn %+v, withheld %+v", s.Tear, s.Withheld)
	}
	all := make(map[string]map[uint64]stoodItem)
	for _, q := range s.Queues {
		items := make(map[uint64]stoodItem)
		err := s.EachStanding(q.Name, func(it Item, stands Standing) bool {
			if _, twice := items[it.ID]; twice {
				err = fmt.Errorf("item %d is there twice", it.ID)
			}
			items[it.ID] = stoodItem{string(it.Data), string(it.Key()), stands}
			return err == nil
		})
		if err != nil {
			return nil, fmt.Errorf("queue %q: %w", q.Name, err)
		}
		if int64(len(items)) != q.Items {
			return nil, fmt.Errorf("queue %q counts %d items, has %d", q.Name, q.Items, len(items))
		}
		all[q.Name] = items
	}
	return all, nil
}

// TestRepairHistories damages what random histories leave: delays, leases, keys, marks and backlogs. It breaks repairs
// off by power cuts, one after another, and judges what the last one leaves.
func TestRepairHistories(t *testing.T) {
	first, seeds, steps := uint64(1), amount[uint64](sampled[uint64](1, 3), 3, 500), amount(200, 400, 400)
	if *seedFlag != 0 {
		first, seeds = *seedFlag, 1
	}
	for seed := first; seed < first+seeds; seed++ {
		r := newModelRun(t, seed)
		r.opts.Shards, r.opts.SegmentSize = 1, []int64{512, 1024, 4096}[r.IntN(3)]
		r.spilling, r.keyed = true, seed%4 > 0
		r.opts.JournalSize = []int64{0, 3000, 20000}[seed%3]
		r.start()
		for r.step = range steps {
			r.do()
		}
		if t.Failed() && seed == first {
			t.Fatalf("replay with: go test ./engine -run TestRepairHistories -seed %d", seed)
		}
		mustCommit(t, r.e, Ticket{Written: r.e.journal.End(), Synced: r.e.journal.End()})
		o := r.e.opts
		image := r.fsys.Kill()
		r.e.Close()
		h := &historyJudge{Rand: rand.New(rand.NewPCG(seed, 1)), opts: o, image: image}
		if err := h.begin(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for n := range amount(sampled(5, 10), 15, 100) {
			if err := h.try(n%3 == 0, n%2 == 0); err != nil {
				t.Errorf("seed %d, damage %d, %s: %v", seed, n, h.what, err)
			}
		}
	}
}

// historyJudge judges repairs of one directory.
type historyJudge struct {
	*rand.Rand
	opts   Options
	image  *segmenttest.FS
	before map[string]map[uint64]stoodItem
	what   string
}

func (h *historyJudge) on(image *segmenttest.FS) Options {
	o := h.opts
	o.FS = image
	return o
}

func (h *historyJudge) begin() error {
	e, err := open(h.on(h.image))
	if err != nil {
		return err
	}
	if err := e.Close(); err != nil {
		return err
	}
	h.image = h.image.Kill()
	h.before, err = standing(h.on(h.image))
	return err
}

// try damages a copy of the directory, repairs it, with power cuts meanwhile if cuts is set, and judges that.
func (h *historyJudge) try(journal, cuts bool) error {
	image := h.image.Kill()
	var names []string
	for _, name := range image.Paths() {
		if strings.HasSuffix(name, runs.Ext) || journal && strings.HasSuffix(name, ".seg") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	h.what = ""
	for range 1 + h.IntN(4) {
		name := names[h.IntN(len(names))]
		all, err := image.Bytes(name)
		if err != nil || len(all) == 0 {
			continue
		}
		off := h.Int64N(int64(len(all)))
		switch n := h.IntN(8); {
		case n == 0 && strings.HasSuffix(name, runs.Ext):
			h.what += " removed " + name
			err = image.Remove(name)
		case n == 1:
			h.what += fmt.Sprintf(" cut %s to %d", name, off)
			err = image.TruncateFile(name, off)
		default:
			h.what += fmt.Sprintf(" flipped %s at %d", name, off)
			err = image.FlipBit(name, off, uint(h.IntN(8)))
		}
		if err != nil {
			return err
		}
	}
	if err := image.SyncDir("data/backlog"); err != nil { // or the cuts bring back what was removed
		return err
	}
	d, err := Examine(h.on(image))
	if err != nil {
		return err
	}
	if d.Sound() {
		return d.Close()
	}
	losses, announced := d.Losses, d.Queues
	if err := d.Close(); err != nil {
		return err
	}
	for again := cuts; again; again = h.IntN(2) == 0 {
		image.StopAt(1 + h.IntN(60))
		d, err := Examine(h.on(image))
		if err == nil {
			err = errors.Join(d.Repair(), d.Close())
		}
		if !image.Stopped() {
			image = image.Kill()
			if err != nil {
				return fmt.Errorf("a repair behind a cut: %w", err)
			}
			break
		}
		mode := []segmenttest.Mode{segmenttest.Lose, segmenttest.Keep}[h.IntN(2)]
		image = image.PowerCut(segmenttest.CutOptions{Mode: mode})
	}
	if d, err = Examine(h.on(image)); err != nil {
		return fmt.Errorf("behind cuts: %w", err)
	}
	if !d.Sound() {
		if !slices.Equal(d.Queues, announced) {
			return fmt.Errorf("announced %+v, and behind a cut %+v", only(announced, d.Queues), only(d.Queues, announced))
		}
		if err := d.Repair(); err != nil {
			return fmt.Errorf("behind cuts: %w", err)
		}
	}
	if err := d.Close(); err != nil {
		return err
	}
	after, err := standing(h.on(image))
	if err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	if len(announced) != len(after) {
		return fmt.Errorf("announced %+v, there are %q", announced, slices.Sorted(maps.Keys(after)))
	}
	for _, q := range announced {
		if int64(len(after[q.Name])) != q.Items {
			return fmt.Errorf("announced %+v, there are %d items", q, len(after[q.Name]))
		}
	}
	e, err := open(h.on(image))
	if err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	defer e.Close()
	if err := e.Verify(); err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	if journal {
		return nil
	}
	return h.compare(after, losses)
}

// compare compares what is left with what there was. The journal was whole.
func (h *historyJudge) compare(after map[string]map[uint64]stoodItem, losses []Loss) error {
	exact := make([]int64, len(losses))
	for name, items := range h.before {
		for id, was := range items {
			is, there := after[name][id]
			if there && is != was {
				return fmt.Errorf("queue %q: item %d was %+v, and is %+v", name, id, was, is)
			}
			if there {
				continue
			}
			i := slices.IndexFunc(losses, func(l Loss) bool { return l.Queue == name && l.FirstID <= id && id <= l.LastID })
			if i < 0 {
				return fmt.Errorf("queue %q: item %d %+v is lost, and nothing says so: %+v", name, id, was, losses)
			}
			exact[i]++
		}
	}
	for i, l := range losses {
		if l.Items >= 0 && exact[i] > l.Items || !l.AtMost && exact[i] != l.Items {
			return fmt.Errorf("loss %+v, but %d are missing", l, exact[i])
		}
	}
	return nil
}

// only returns what of a is not in b.
func only(a, b []SalvagedQueue) []SalvagedQueue {
	return slices.DeleteFunc(slices.Clone(a), func(q SalvagedQueue) bool { return slices.Contains(b, q) })
}
