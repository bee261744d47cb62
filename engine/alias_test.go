package engine

import "testing"

func TestAlias(t *testing.T) {
	runScripts(t, []scriptTest{
		{"4.3 a put goes to each destination, in order, with its full treatment", `
			alias x a b p+c p
			put x 1 flags=9
			items a -> 1
			items b -> 1
			items p -> 1
			items p+c -> 1 1
			get a -> 1 flags=9
			queues -> a b p p+c
			kill
			items b -> 1
			items p+c -> 1 1`},
		{"4.3 destinations may be aliases", `
			alias x y a
			alias y b
			put x 1
			items a -> 1
			items b -> 1`},
		{"4.3 stored only if all stored it; the others keep it", `
			set b max_items=1
			alias x a b c
			put x 1
			put x 2 -> full
			items a -> 1 2
			items b -> 1
			items c -> 1 2`},
		{"4.3 without destinations: stored and dropped", `
			alias x
			put x 1
			queues ->`},
		{"4.3 an alias hides the queue of its name for put, get and peek", `
			put x real
			alias x a
			put x 1
			get x -> empty
			peek x -> empty
			open x r -> empty
			items x -> real
			items a -> 1
			unalias x
			get x -> real`},
		{"4.3 delete, flush and flush-expired look at the hidden queue", `
			put x real expiry=+1s
			put x real
			alias x a
			put a 1
			after 2s
			flushexpired x -> 1
			items x -> real
			flush x
			items x ->
			delete x
			queues -> a
			items a -> 1`},
		{"4.3 for a pure alias they do nothing", `
			alias x a
			put x 1
			delete x
			flush x
			flushexpired x -> 0
			items a -> 1`},
		{"4.3 fetching is an empty queue, and makes none", `
			alias x a
			get x -> empty
			queues ->`},
		{"4.3 an alias does not feed queues called like its children", `
			alias x a
			get x+c -> empty
			put x 1
			items x+c ->
			items a -> 1`},
		{"4.3 quirk: an alias that reaches itself is refused", `
			alias x x -> refused
			alias x y
			alias y a
			alias y x -> refused
			alias y b z
			alias z x -> refused`},
		{"4.3 a diamond is no cycle", `
			alias x y z
			alias y a
			alias z a
			put x 1
			items a -> 1 1`},
		{"5.6 a reload changes and removes aliases", `
			alias x a
			put x 1
			alias x b
			put x 2
			unalias x
			put x 3
			items a -> 1
			items b -> 2
			items x -> 3`},
		{"an illegal destination is refused", `
			alias x a.b -> refused
			alias a.b x -> refused`},
		{"4.10 a destination's list holds for puts through the alias", `
			set a enqueue_client=me
			alias x a
			put x 1 -> not admitted
			put x 1 client=me`},
	})
}

func TestAliasStats(t *testing.T) {
	o := testOptions(newFS())
	o.Settings.Aliases = map[string][]string{"x": {"a", "b"}, "none": nil}
	e := openQuiet(t, o)
	mustPut(t, e, "x", "12345")
	mustPut(t, e, "x", "678")
	got := e.Aliases()
	if len(got) != 2 || got[0].Name != "none" || got[0].PutItems != 0 {
		t.Errorf("Aliases = %+v, want none and x", got)
	}
	x := got[1]
	if x.Name != "x" || x.PutItems != 2 || x.PutBytes != 8 || len(x.Destinations) != 2 {
		t.Errorf("alias x = %+v, want 2 items of 8 bytes", x)
	}
}
