package scenario

import (
	"time"

	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// Statistics are asked for while they cost little: a reply that takes longer than slowStats ends
// that for the phase.
const (
	slowStats = 100 * time.Millisecond
	maxWatch  = 256 // queues
)

// sampler looks at the server at the end of each interval of a phase. It is used by one goroutine.
type sampler struct {
	env    *Env
	queues []string
	began  time.Time
	off    bool // statistics are no longer asked for
}

// sample returns the state of the server, or nil if nothing can be known.
func (s *sampler) sample() *figures.Sample {
	r := &figures.Sample{CPU: -1, Resident: -1, Items: -1, Bytes: -1, MemItems: -1, MemBytes: -1,
		JournalBytes: -1}
	known := false
	if pid := s.env.PID; pid > 0 {
		cpu, err1 := spawn.CPUTime(pid)
		resident, err2 := spawn.Resident(pid)
		if err1 == nil && err2 == nil {
			r.CPU, r.Resident, known = int64(cpu), resident, true
		}
	}
	if stats := s.stats(); len(stats) > 0 {
		known = true
		for queue, q := range stats {
			addKnown(&r.Items, q, "items")
			addKnown(&r.Bytes, q, "bytes")
			addKnown(&r.MemItems, q, "mem_items")
			addKnown(&r.MemBytes, q, "mem_bytes")
			addKnown(&r.JournalBytes, q, "logsize")
			if s.env.Monitor {
				s.print(queue, q)
			}
		}
	}
	if !known {
		return nil
	}
	return r
}

// stats asks for the statistics of the queues, unless that is too much.
func (s *sampler) stats() map[string]queueStats {
	if s.off || len(s.queues) > maxWatch {
		return nil
	}
	begin := time.Now()
	stats, err := s.env.control.stats(s.queues)
	if err != nil || time.Since(begin) > slowStats {
		s.off = true
	}
	if err != nil {
		return nil // the connection is of no further use; the load says what is wrong
	}
	return stats
}

// print prints a queue's state as the original's monitor did.
func (s *sampler) print(queue string, q queueStats) {
	s.env.printf("%s: items=%d total_items=%d (%s) bytes=%d mem_items=%d mem_bytes=%d journal_bytes=%d",
		queue, q["items"], q["total_items"], time.Since(s.began).Round(time.Second), q["bytes"],
		q["mem_items"], q["mem_bytes"], q["logsize"])
}

// addKnown adds a statistic to a sum that is -1 while nothing is known.
func addKnown(sum *int64, q queueStats, name string) {
	if n, ok := q[name]; ok {
		*sum = max(*sum, 0) + n
	}
}
