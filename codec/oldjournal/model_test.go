package oldjournal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/fstest"
)

// writer does what the original does to a queue and its files, and keeps what a client would see.
type writer struct {
	rng   *rand.Rand
	files fstest.MapFS
	queue []string
	open  map[int32]string
	order []int32 // xids of open, oldest first
	xid   int32
	puts  int
	now   int64
}

func newWriter(seed uint64) *writer {
	return &writer{
		rng: rand.New(rand.NewPCG(seed, 0)), files: fstest.MapFS{"q": {}},
		open: make(map[int32]string), now: at,
	}
}

func (w *writer) log(rec Record) { w.files["q"].Data = Append(w.files["q"].Data, &rec) }

func (w *writer) add(dst []byte, data string) []byte {
	return Append(dst, &Record{Op: OpAddX, Added: w.now, Data: []byte(data)})
}

// step is one operation of a client or of the server.
func (w *writer) step() {
	w.now++
	switch n := w.rng.IntN(100); {
	case n < 40:
		w.puts++
		data := fmt.Sprintf("item %d%s", w.puts, bytes.Repeat([]byte("\x02"), w.rng.IntN(40)))
		w.queue = append(w.queue, data)
		w.files["q"].Data = w.add(w.files["q"].Data, data)
	case n < 55 && len(w.queue) > 0:
		w.queue = w.queue[1:]
		w.log(Record{Op: OpRemove})
	case n < 75 && len(w.queue) > 0:
		w.xid++
		w.open[w.xid], w.queue = w.queue[0], w.queue[1:]
		w.order = append(w.order, w.xid)
		w.log(Record{Op: OpRemoveTentativeXID, XID: w.xid})
	case n < 93 && len(w.order) > 0:
		i := w.rng.IntN(len(w.order))
		xid := w.order[i]
		w.order = slices.Delete(w.order, i, i+1)
		if n < 86 {
			w.log(Record{Op: OpConfirmRemove, XID: xid})
		} else {
			w.queue = append([]string{w.open[xid]}, w.queue...)
			w.log(Record{Op: OpUnremove, XID: xid})
		}
		delete(w.open, xid)
	case n < 97:
		w.rotate()
	case n < 99:
		w.rewrite()
	default:
		w.restart()
	}
}

func (w *writer) rotate() {
	w.files[fmt.Sprintf("q.%d", w.now)] = w.files["q"]
	w.files["q"] = &fstest.MapFile{}
}

// rewrite packs what is there into one file, and may leave the files it replaces.
func (w *writer) rewrite() {
	var b []byte
	for _, xid := range slices.Backward(w.order) {
		b = w.add(b, w.open[xid])
		b = Append(b, &Record{Op: OpRemoveTentativeXID, XID: xid})
	}
	for _, data := range w.queue {
		b = w.add(b, data)
	}
	w.rotate() // its records are in the pack
	w.files[fmt.Sprintf("q.%d.pack", w.now)] = &fstest.MapFile{Data: b}
	w.files[fmt.Sprintf("q~~%d", w.now)] = &fstest.MapFile{Data: b[:len(b)/2]}
}

// restart brings open reads back.
func (w *writer) restart() {
	slices.Sort(w.order)
	for _, xid := range slices.Backward(w.order) {
		w.queue = append([]string{w.open[xid]}, w.queue...)
		w.log(Record{Op: OpUnremove, XID: xid})
	}
	w.order, w.open = nil, make(map[int32]string)
}

// TestLoadModel plays random operations of the original and loads its files; open reads come back
// in the order in which they were opened.
func TestLoadModel(t *testing.T) {
	for seed := range uint64(200) {
		w := newWriter(seed)
		for range w.rng.IntN(300) {
			w.step()
		}
		files, _ := planned(w.files)
		q, err := Load(w.files, files[0], LoadOptions{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want := []string{}
		slices.Sort(w.order)
		for _, xid := range w.order {
			want = append(want, w.open[xid])
		}
		want = append(want, w.queue...)
		if got := contents(t, w.files, q); !slices.Equal(got, want) {
			t.Fatalf("seed %d: got %q\nwant %q", seed, got, want)
		}
	}
}

// TestLoadCut cuts the current file at every length. It is torn, or shorter by whole records, and
// what is in front of the cut is there.
func TestLoadCut(t *testing.T) {
	const whole = "A(one) A(two) V(1) A(three) C(1) A(four) V(2)"
	full := script(t, whole)
	ends := map[int]bool{}
	for n, rec := 0, (Record{}); n < len(full); {
		ends[n] = true
		size, err := Decode(full[n:], &rec)
		if err != nil {
			t.Fatal(err)
		}
		n += size
	}
	for n := range full {
		dir := fstest.MapFS{"q": {Data: full[:n]}}
		q, err := Load(dir, Files{"q", []string{"q"}}, LoadOptions{})
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if ends[n] != (q.Torn == nil) {
			t.Errorf("cut at %d: torn %v", n, q.Torn)
		}
		end := n
		if q.Torn != nil {
			end = int(q.Torn.Offset)
		}
		if !ends[end] || int64(n-end) != size(q.Torn) {
			t.Errorf("cut at %d: torn at %d, which is no record's start", n, end)
		}
	}
}

func size(b *Break) int64 {
	if b == nil {
		return 0
	}
	return b.Size
}
