package sample

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/client"
)

// Sample is what servers said at one moment.
type Sample struct {
	At      time.Time
	Servers []client.ServerStats // by name
	Queues  []Queue              // by name
}

// Queue is a queue's figures, those of all servers added up; of Age it is the highest.
type Queue struct {
	client.QueueStats
	Servers []string // that have it
}

// Take asks all servers of c.
func Take(ctx context.Context, c *client.Client) Sample {
	stats := c.Stats(ctx)
	return Sample{At: time.Now(), Servers: stats, Queues: merge(stats)}
}

// Answered reports whether a server answered, if there is one.
func (s Sample) Answered() bool {
	return len(s.Servers) == 0 || slices.ContainsFunc(s.Servers, func(one client.ServerStats) bool { return one.Err == nil })
}

// Err returns why servers did not answer, nil if all did.
func (s Sample) Err() error {
	var failed error
	for _, server := range s.Servers {
		failed = errors.Join(failed, server.Err)
	}
	return failed
}

// Find returns a queue by its name.
func (s Sample) Find(name string) (Queue, bool) {
	i, ok := slices.BinarySearchFunc(s.Queues, name, func(q Queue, name string) int { return strings.Compare(q.Name, name) })
	if !ok {
		return Queue{}, false
	}
	return s.Queues[i], true
}

// merge adds the figures of the servers up.
func merge(stats []client.ServerStats) []Queue {
	by := make(map[string]*Queue)
	for _, server := range stats {
		for _, one := range server.Queues {
			q := by[one.Name]
			if q == nil {
				q = &Queue{QueueStats: client.QueueStats{Name: one.Name}}
				by[one.Name] = q
			}
			q.add(server.Server, one)
		}
	}
	all := make([]Queue, 0, len(by))
	for _, name := range slices.Sorted(maps.Keys(by)) {
		all = append(all, *by[name])
	}
	return all
}

// add adds the figures that a server has of the queue.
func (q *Queue) add(server string, one client.QueueStats) {
	q.Servers = append(q.Servers, server)
	q.Items += one.Items
	q.Bytes += one.Bytes
	q.Age = max(q.Age, one.Age)
	q.Waiters += one.Waiters
	q.OpenReads += one.OpenReads
	q.Delayed += one.Delayed
	q.Leased += one.Leased
	q.DeadLettered += one.DeadLettered
	q.Redelivered += one.Redelivered
	q.Puts += one.Puts
	q.Opened += one.Opened
	q.Returned += one.Returned
	q.Expired += one.Expired
	q.Discarded += one.Discarded
	q.Flushes += one.Flushes
	q.MemoryBytes += one.MemoryBytes
	q.DiskBytes += one.DiskBytes
	for _, child := range one.Children {
		if !slices.Contains(q.Children, child) {
			q.Children = append(q.Children, child)
		}
	}
}

// Rates are what happened to a queue between two samples, for each second.
type Rates struct {
	In  float64 // items put
	Out float64 // items that are gone: taken for good, confirmed, expired, flushed
}

// Since returns the rates of a queue between an earlier sample and this one. They are zero if the
// earlier one does not have it, or has higher counts: the server is another process since.
func (s Sample) Since(earlier Sample, name string) Rates {
	now, ok := s.Find(name)
	before, had := earlier.Find(name)
	seconds := s.At.Sub(earlier.At).Seconds()
	put := now.Puts - before.Puts
	if !ok || !had || seconds <= 0 || put < 0 {
		return Rates{}
	}
	gone := put - (now.Items + now.OpenReads - before.Items - before.OpenReads)
	return Rates{In: float64(put) / seconds, Out: float64(max(gone, 0)) / seconds}
}
