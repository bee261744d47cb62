package sample

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/client"
)

func TestMerge(t *testing.T) {
	one := client.QueueStats{Name: "work", Items: 1, Bytes: 2, Age: 3, Waiters: 4, OpenReads: 5, Puts: 6, Opened: 7,
		Returned: 8, Expired: 9, Discarded: 10, Flushes: 11, MemoryBytes: 12, DiskBytes: 13, Children: []string{"work+a"}}
	two := one
	two.Age = 99
	two.Children = []string{"work+a", "work+b"}
	got := merge([]client.ServerStats{
		{Server: "a", Queues: []client.QueueStats{{Name: "zebra"}, one}},
		{Server: "b", Queues: []client.QueueStats{two}},
		{Server: "c", Err: errors.New("away")},
	})
	want := []Queue{
		{QueueStats: client.QueueStats{Name: "work", Items: 2, Bytes: 4, Age: 99, Waiters: 8, OpenReads: 10, Puts: 12, Opened: 14,
			Returned: 16, Expired: 18, Discarded: 20, Flushes: 22, MemoryBytes: 24, DiskBytes: 26,
			Children: []string{"work+a", "work+b"}}, Servers: []string{"a", "b"}},
		{QueueStats: client.QueueStats{Name: "zebra"}, Servers: []string{"a"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("merge = %+v\nwant    %+v", got, want)
	}
}

func TestSince(t *testing.T) {
	at := time.Unix(1000, 0)
	take := func(seconds int, queues ...client.QueueStats) Sample {
		s := Sample{At: at.Add(time.Duration(seconds) * time.Second)}
		for _, q := range queues {
			s.Queues = append(s.Queues, Queue{QueueStats: q})
		}
		return s
	}
	first := take(0, client.QueueStats{Name: "work", Items: 100, OpenReads: 1, Puts: 1000})
	for _, tt := range []struct {
		now  Sample
		want Rates
	}{
		{take(2, client.QueueStats{Name: "work", Items: 90, OpenReads: 3, Puts: 1010}), Rates{In: 5, Out: 9}},
		{take(2, client.QueueStats{Name: "work", Items: 100, OpenReads: 1, Puts: 1000}), Rates{}},
		{take(2, client.QueueStats{Name: "work", Items: 300, OpenReads: 1, Puts: 1100}), Rates{In: 50}}, // came back from elsewhere
		{take(2, client.QueueStats{Name: "work", Items: 3, Puts: 3}), Rates{}},                          // another process
		{take(2), Rates{}},
		{take(0, client.QueueStats{Name: "work", Items: 90, Puts: 1010}), Rates{}},
	} {
		if got := tt.now.Since(first, "work"); got != tt.want {
			t.Errorf("%+v since %+v: %+v, want %+v", tt.now, first, got, tt.want)
		}
	}
}
