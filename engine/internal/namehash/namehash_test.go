package namehash

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestOfParents checks that what stands behind the first plus sign does not count, and that all before it does.
func TestOfParents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		parent := rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "parent")
		rest := rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "rest")
		parent = bytes.ReplaceAll(parent, []byte{'+'}, []byte{'-'})
		child := append(append(bytes.Clone(parent), '+'), rest...)
		if got, want := Of(seed, child), Of(seed, parent); got != want {
			t.Errorf("Of(%q) = %#x, that of %q is %#x", child, got, parent, want)
		}
		if len(parent) == 0 {
			return
		}
		other := bytes.Clone(parent)
		i := rapid.IntRange(0, len(other)-1).Draw(t, "i")
		if other[i] ^= 0x40; other[i] == '+' {
			return
		}
		if Of(seed, other) == Of(seed, parent) {
			t.Errorf("Of(%q) = Of(%q)", other, parent)
		}
	})
}

// TestOfSpreads checks that numbered names fill 64 shards about evenly, whatever stands in front and behind.
func TestOfSpreads(t *testing.T) {
	const shards, names = 64, 64 * 1000
	for _, form := range []string{"%d", "q%d", "jobs-%05d", "a.long.name.of.a.queue.%d", "%d.orders.eu-west", "user/%d"} {
		var count [shards]int
		for n := range names {
			count[Of(1, fmt.Appendf(nil, form, n))>>58]++
		}
		for i, n := range count {
			if n < 800 || n > 1200 { // six standard deviations
				t.Errorf("%s: shard %d has %d names of %d", form, i, n, names)
			}
		}
	}
}

// TestSeed checks that other seeds spread names otherwise.
func TestSeed(t *testing.T) {
	same := 0
	for n := range uint64(1000) {
		if Of(n, []byte("work"))>>58 == Of(n+1, []byte("work"))>>58 {
			same++
		}
	}
	if same > 40 {
		t.Errorf("%d of 1000 seeds give a name the shard of the seed before", same)
	}
}

func BenchmarkOf(b *testing.B) {
	for _, name := range []string{"bench", "work.of.the.day+mail"} {
		b.Run(name, func(b *testing.B) {
			name := []byte(name)
			for b.Loop() {
				Of(1, name)
			}
		})
	}
}
