package oldjournal_test

import (
	"fmt"
	"testing/fstest"

	"github.com/kestrelmq/kestrel/codec/oldjournal"
)

// A queue is put together from its files, which are left as they are.
func ExampleLoad() {
	var archived, current []byte
	for _, data := range []string{"first", "second"} {
		archived = oldjournal.Append(archived, &oldjournal.Record{
			Op: oldjournal.OpAddX, Added: 1700000000000, Data: []byte(data),
		})
	}
	current = oldjournal.Append(current, &oldjournal.Record{Op: oldjournal.OpRemove})
	dir := fstest.MapFS{"work.1700000000001": {Data: archived}, "work": {Data: current}}

	queues, _ := oldjournal.Plan([]string{"work", "work.1700000000001"})
	q, err := oldjournal.Load(dir, queues[0], oldjournal.LoadOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	bodies := q.Bodies(dir)
	defer bodies.Close()
	for _, it := range q.Items {
		data, err := bodies.Append(nil, it)
		fmt.Printf("%s: %s, added %d %v\n", q.Queue, data, it.Added, err)
	}
	// Output: work: second, added 1700000000000 <nil>
}
