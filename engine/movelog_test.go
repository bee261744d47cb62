package engine

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// lockedLog is a Writer that checks that no shard is locked, and counts the lines.
type lockedLog struct {
	*testing.T
	e     *Engine
	lines []string
}

func (l *lockedLog) Write(p []byte) (int, error) {
	for i := range l.e.shards {
		if !l.e.shards[i].mu.TryLock() {
			l.Errorf("shard %d is locked while the log is written: %s", i, p)
			continue
		}
		l.e.shards[i].mu.Unlock()
	}
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

// TestMovesLogOnce has many items go to a queue that cannot be made. The log gets a line for all that one operation
// carries, and no shard is locked meanwhile.
func TestMovesLogOnce(t *testing.T) {
	const n = 100
	for _, tt := range []struct {
		what, want string
		left       int
		do         func(e *Engine)
	}{
		{"dead letters", `msg="item stays in its queue: its dead-letter queue cannot be made" items=100 target=q_dead`, n,
			func(e *Engine) {
				e.Return(Now(), openAll(t, e, "q", n), Return{How: Reject})
			}},
		{"expired items", `msg="expired item is lost: its queue for expired items cannot be made" items=100 target=late`, 0,
			func(e *Engine) { e.FlushExpired(Now().After(time.Hour), []byte("q")) }},
	} {
		l := &lockedLog{T: t}
		o := testOptions(segmenttest.New(), func(q *QueueOptions) { q.ExpireTo, q.MaxAge = "late", time.Minute })
		o.MaxQueues, o.Logger = 1, slog.New(slog.NewTextHandler(l, nil))
		e := openQuiet(t, o)
		l.e = e
		for range n {
			mustPut(t, e, "q", "item")
		}
		tt.do(e)
		if len(l.lines) != 1 || !strings.Contains(l.lines[0], tt.want) {
			t.Errorf("%s: the log has %q, want one line with %q", tt.what, l.lines, tt.want)
		}
		if got := int(e.shardOf([]byte("q")).queues["q"].items()); got != tt.left {
			t.Errorf("%s: %d items are left, want %d", tt.what, got, tt.left)
		}
		verify(t, e)
	}
}
