package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// openExample opens an engine in a directory of its own; end closes and removes it.
func openExample() (e *engine.Engine, end func()) {
	dir, err := os.MkdirTemp("", "kestrel")
	if err != nil {
		log.Fatal(err)
	}
	e, err = engine.Open(engine.Options{
		Dir:      dir,
		Settings: engine.Settings{Default: engine.DefaultQueueOptions()},
	})
	if err != nil {
		log.Fatal(err)
	}
	return e, func() {
		e.Close()
		os.RemoveAll(dir)
	}
}

func Example() {
	dir, err := os.MkdirTemp("", "kestrel")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	e, err := engine.Open(engine.Options{
		Dir:      dir,
		Settings: engine.Settings{Default: engine.DefaultQueueOptions()},
	})
	if err != nil {
		log.Fatal(err)
	}
	work, err := e.Queue("work")
	if err != nil {
		log.Fatal(err)
	}
	// When Put returns, the item survives a power cut.
	if err := work.Put([]byte("hello"), engine.PutOptions{}); err != nil {
		log.Fatal(err)
	}
	item, err := work.TryGet()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", item.Data)
	if err := e.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: hello
}

func ExampleQueue_Get() {
	e, end := openExample()
	defer end()
	work, _ := e.Queue("work")

	go work.Put([]byte("hello"), engine.PutOptions{})

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	item, err := work.Get(ctx) // waits for an item, at most a minute
	fmt.Printf("%s, %v\n", item.Data, err)
	// Output: hello, <nil>
}

func ExampleQueue_Open() {
	e, end := openExample()
	defer end()
	work, _ := e.Queue("work")
	work.Put([]byte("hello"), engine.PutOptions{})
	ctx := context.Background()

	// An open read is nobody else's until it is confirmed or aborted.
	read, _ := work.Open(ctx)
	_, err := work.TryOpen()
	fmt.Println(err)

	// Aborted, or after a crash, the item is back at the head of the queue.
	read.Abort()
	read, _ = work.Open(ctx)
	fmt.Printf("%s\n", read.Item.Data)

	// Confirmed, it is gone for good.
	fmt.Println(read.Confirm())
	// Output:
	// engine: queue is empty
	// hello
	// <nil>
}

func ExampleQueue_Lease() {
	e, end := openExample()
	defer end()
	jobs, _ := e.Queue("jobs")

	// The item of a key is there once: the second put takes the place of the first.
	jobs.Put([]byte("draft"), engine.PutOptions{Key: "mail-7"})
	jobs.Put([]byte("mail"), engine.PutOptions{Key: "mail-7"})
	// A delayed item is in no line before it is due.
	jobs.Put([]byte("later"), engine.PutOptions{Delay: time.Hour})

	// If the worker dies, the item comes back after a minute.
	job, _ := jobs.TryLease(time.Minute)
	fmt.Printf("%s, delivery %d\n", job.Item.Data, job.Deliveries)
	_, err := jobs.TryLease(time.Minute)
	fmt.Println(err)

	job.Extend(5 * time.Minute) // from now
	// The receipt is enough to end the lease, in another process or after a crash.
	fmt.Println(jobs.Leased(job.Receipt).Confirm())
	fmt.Println(job.Confirm())
	// Output:
	// mail, delivery 1
	// engine: queue is empty
	// <nil>
	// engine: not held
}

func ExampleQueue_Put_fanout() {
	e, end := openExample()
	defer end()
	events, _ := e.Queue("events")

	// A queue called events+… gets a copy of every item put to events from its first use on.
	for _, name := range []string{"events+mail", "events+audit"} {
		child, _ := e.Queue(name)
		child.TryGet()
	}
	events.Put([]byte("signed up"), engine.PutOptions{})

	for _, q := range e.Queues(engine.Now()) {
		fmt.Println(q.Name, q.Items)
	}
	// Output:
	// events 1
	// events+audit 1
	// events+mail 1
}

func ExampleEngine_Reload() {
	e, end := openExample()
	defer end()
	small := engine.DefaultQueueOptions()
	small.MaxItems = 1
	err := e.Reload(engine.Settings{
		Default: engine.DefaultQueueOptions(),
		Queues:  map[string]engine.QueueOptions{"small": small},
		Aliases: map[string][]string{"both": {"small", "large"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	both, _ := e.Queue("both")
	for range 2 {
		fmt.Println(both.Put([]byte("item"), engine.PutOptions{}))
	}
	// Output:
	// <nil>
	// engine: queue is full
}
