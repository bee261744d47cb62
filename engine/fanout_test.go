package engine

import (
	"fmt"
	"testing"
)

func TestFanout(t *testing.T) {
	runScripts(t, []scriptTest{
		{"4.2 a child gets what its parent gets from then on", `
			put jobs before
			get jobs+a -> empty
			put jobs x flags=3
			get jobs+a -> x flags=3
			items jobs -> before x`},
		{"4.2 any reference makes a child: put, get, open, peek", `
			put p+a own
			get p+b -> empty
			open p+c r -> empty
			peek p+d -> empty
			put p x
			items p+a -> own x
			items p+b -> x
			items p+c -> x
			items p+d -> x
			stats p children -> p+a,p+b,p+c,p+d`},
		{"4.2 configuration alone makes no child", `
			set p+a max_items=1
			put p x
			queues -> p`},
		{"4.2 children are named by what stands before the first +", `
			get a+b+c -> empty
			put a+b x
			get a+b+c -> empty
			put a y
			get a+b+c -> y`},
		{"4.2 a name that starts with + has no parent that could be put to", `
			put +x a
			get +x -> a`},
		{"4.2 the parent need not exist", `
			put p+a x
			queues -> p+a
			put p y
			items p+a -> x y`},
		{"4.2 refusals by children are ignored, each has its own limits", `
			set p max_items=10
			set p+a max_items=1
			set p+b max_item_size=1
			get p+a -> empty
			get p+b -> empty
			put p one
			put p 2
			items p -> one 2
			items p+a -> one
			items p+b -> 2`},
		{"4.2 the reply is the parent's result only", `
			set p max_items=1
			set p+a max_items=10
			get p+a -> empty
			put p x
			put p y -> full
			items p+a -> x y`},
		{"4.2 same expiry for all", `
			get p+a -> empty
			put p x expiry=+1s
			after 2s
			get p+a -> empty
			get p -> empty
			stats p+a expired -> 1`},
		{"4.2 a child is read, put to, flushed and deleted by itself", `
			get p+a -> empty
			get p+b -> empty
			put p x
			put p+a own
			items p -> x
			items p+b -> x
			get p+a -> x
			flush p+a
			items p+b -> x
			delete p+b
			items p -> x
			put p y
			queues -> p p+a
			items p+a -> y`},
		{"4.2 fanout_only: children only, stored even without any", `
			set p fanout_only
			put p x
			get p+a -> empty
			put p y
			items p ->
			items p+a -> y
			stats p puts items -> 2 0`},
		{"4.2 fanout_only: the size check comes first", `
			set p fanout_only max_item_size=3
			put p x*4 -> too large
			put p xxx`},
		{"4.2 fanout_only: limits of the parent do not matter", `
			set p fanout_only max_items=0
			put p x`},
		{"4.2 fanout_only: items from before can be read", `
			put p x
			set p fanout_only
			put p y
			get p -> x
			get p -> empty`},
		{"4.2 fanout_only is inherited by children without effect", `
			set p fanout_only
			put p+a x
			items p+a -> x`},
		{"4.2 deleting the parent leaves the children", `
			get p+a -> empty
			put p x
			delete p
			put p y
			items p -> y
			items p+a -> x y`},
		{"4.2 flushing the parent leaves the children", `
			get p+a -> empty
			put p x
			flush p
			items p+a -> x`},
		{"4.2 membership survives a restart", `
			get p+a -> empty
			put p x
			restart
			put p y
			items p+a -> x y
			kill
			put p z
			items p -> x y z
			items p+a -> x y z`},
		{"4.2 a child without journal ends with the process, the parent does not", `
			set p+a journal=no
			get p+a -> empty
			put p x
			items p+a -> x
			kill
			queues -> p
			items p -> x`},
		{"5.3 a child has its parent's options unless it has its own", `
			set p max_items=1
			set p+b max_items=2
			put p+a 1
			put p+a 2 -> full
			put p+b 1
			put p+b 2
			put p+b 3 -> full`},
		{"4.10 the enqueue list is checked on the parent once", `
			set p enqueue_client=me
			get p+a -> empty
			put p x -> not admitted
			items p+a ->
			put p x client=me
			items p -> x
			items p+a -> x
			put p+a y`},
	})
}

// TestFanoutSharesRecord shows that the journal holds the body of a fanout put once.
func TestFanoutSharesRecord(t *testing.T) {
	e, _ := newQuiet(t)
	for i := range 10 {
		mustGet(t, e, fmt.Sprintf("p+%d", i))
	}
	before := e.journal.End()
	mustPut(t, e, "p+0", string(make([]byte, 1000)))
	single := e.journal.End() - before
	mustGet(t, e, "p")
	before = e.journal.End()
	mustPut(t, e, "p", string(make([]byte, 1000)))
	if got, most := e.journal.End()-before, single+10*4; got > most {
		t.Errorf("put to 11 queues takes %d bytes of the journal, want %d at most", got, most)
	}
}

// TestFanoutMemory shows that one put to many children cannot pass the memory limit. They share what is too much to
// copy for each, and a put without room for it is refused.
func TestFanoutMemory(t *testing.T) {
	o := testOptions(newFS())
	o.MemoryLimit = 10 << 20
	e := openQuiet(t, o)
	for i := range 100 {
		mustGet(t, e, fmt.Sprintf("p+%d", i))
	}
	mustGet(t, e, "p")
	const size = 200 << 10
	e.opts.MemoryLimit = e.memory.Load() + 3*size
	for i, want := range []error{nil, nil, ErrOutOfMemory} {
		if _, err := e.Put(Now(), []byte("p"), PutRequest{Data: make([]byte, size)}); err != want {
			t.Errorf("put %d = %v, want %v", i, err, want)
		}
		if got := e.Stats().MemoryBytes; got > e.opts.MemoryLimit {
			t.Errorf("%d bytes in use, want at most %d", got, e.opts.MemoryLimit)
		}
	}
}
