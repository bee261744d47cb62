package engine

import (
	"strings"
	"testing"
)

// TestReadAhead drains a queue whose memory has room for more than is to be read ahead: of small
// items as many bytes as that are in the window, of large ones a few items.
//
// Its control is an fillLimit that is frontLimit.
func TestReadAhead(t *testing.T) {
	const memory = 36 << 20 // half of it is the window's
	for _, test := range []struct{ size, least, most int64 }{
		{64 << 10, maxFilled - fillBatch - 128<<10, maxFilled},
		{1 << 20, minFilled << 20, (minFilled + 1) << 20},
	} {
		o := testOptions(newFS(), func(o *QueueOptions) { o.MaxMemorySize = memory })
		e := openQuiet(t, o)
		data := strings.Repeat("x", int(test.size))
		for range 2 * memory / test.size {
			mustPut(t, e, "q", data)
			spoolAll(e)
		}
		for range memory / test.size { // the first of them have never left the memory
			mustGet(t, e, "q")
			spoolAll(e)
		}
		w := &e.shardOf([]byte("q")).queues["q"].window
		if w.Bytes < test.least || w.Bytes > test.most {
			t.Errorf("items of %d bytes: %d bytes are read ahead, want %d to %d", test.size, w.Bytes,
				test.least, test.most)
		}
	}
}
