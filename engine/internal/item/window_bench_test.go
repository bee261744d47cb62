package item_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
)

// BenchmarkWindow puts items to a window and takes them, 32 at a time, as a queue does from outside the package. An
// operation is one item in and out.
func BenchmarkWindow(b *testing.B) {
	const limit, batch = 64 << 20, 32
	for _, size := range []int{64, 1 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			p := &item.Pool{Memory: new(atomic.Int64), Arena: item.NewArena(limit), Free: item.NewFreeLists(1, limit)[0]}
			var w item.Window
			it := item.Item{Added: 1, Data: make([]byte, size)}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%batch > 0 {
					continue
				}
				for range batch {
					if it.ID++; w.Count == 0 || !w.Extend(it.Data, 0, it.Added, 0) {
						w.Push(p, &it, limit)
					}
				}
				for range batch {
					var first item.Item
					w.First(&first)
					w.Pop(p, &first)
				}
			}
			if w.Count != 0 {
				b.Fatalf("%d items are left", w.Count)
			}
		})
	}
}
