package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/client"
)

// Put an item, and take it for good.
func Example() {
	address, stop := client.ServeExample() // a server of this machine, for the example
	defer stop()
	ctx := context.Background()

	c, err := client.Dial(ctx, address, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := c.Put(ctx, "work", []byte("hello"), client.PutOptions{}); err != nil {
		log.Fatal(err)
	}
	item, err := c.Get(ctx, "work", time.Second)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(item.Data))
	_, err = c.Get(ctx, "work", 0)
	fmt.Println(errors.Is(err, client.ErrEmpty))
	// Output:
	// hello
	// true
}

// Handle items, two at a time. An item whose handler fails is delivered again.
func ExampleWorker() {
	ctx, cancel := context.WithCancel(context.Background()) // a program has signal.NotifyContext here
	defer cancel()
	c, stop := client.DialExample()
	defer stop()
	if err := c.Put(ctx, "images", []byte("cat.png"), client.PutOptions{}); err != nil {
		log.Fatal(err)
	}

	w := &client.Worker{
		Client: c, Queue: "images", Handlers: 2,
		Handle: func(ctx context.Context, d *client.Delivery) error {
			fmt.Printf("resizing %s\n", d.Data)
			cancel() // one is enough here
			return nil
		},
	}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: resizing cat.png
}

// Handle jobs under a lease, which the worker extends while a handler runs.
func ExampleWorker_lease() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, stop := client.DialExample()
	defer stop()
	if err := c.Put(ctx, "jobs", []byte("resize image 7"), client.PutOptions{}); err != nil {
		log.Fatal(err)
	}

	w := &client.Worker{Client: c, Queue: "jobs", Lease: 30 * time.Second}
	w.Handle = func(ctx context.Context, d *client.Delivery) error {
		fmt.Printf("working on %s\n", d.Data)
		cancel()   // one is enough here
		return nil // done; with an error the job comes again
	}
	err := w.Run(ctx) // nil when ctx ends
	if err != nil {
		log.Fatal(err)
	}
	// Output: working on resize image 7
}

// Retry what fails, later each time. A job that will never work goes to the dead letters.
func ExampleWorker_retry() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, stop := client.DialExample()
	defer stop()
	if err := c.Put(ctx, "mail", []byte("to: nobody"), client.PutOptions{}); err != nil {
		log.Fatal(err)
	}

	w := &client.Worker{Client: c, Queue: "mail", Lease: 30 * time.Second}
	w.Backoff = client.Backoff{First: 100 * time.Millisecond, Most: time.Minute}
	w.Handle = func(ctx context.Context, d *client.Delivery) error {
		fmt.Printf("sending %s, time %d\n", d.Data, d.Deliveries)
		if d.Deliveries < 2 {
			return errors.New("the mail server is down") // again, later each time
		}
		cancel()                // one is enough here
		return client.ErrReject // it will never work: to mail_dead
	}
	err := w.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	dead, err := c.Get(context.Background(), "mail_dead", time.Second)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("given up: %s\n", dead.Data)
	// Output:
	// sending to: nobody, time 1
	// sending to: nobody, time 2
	// given up: to: nobody
}

// Take a job under a lease, which any connection may end, and which lasts as long as the work.
func ExampleClient_ConsumeLeased() {
	ctx := context.Background()
	c, stop := client.DialExample() // the first example has the real one
	defer stop()
	if err := c.Put(ctx, "jobs", []byte("resize image 7"), client.PutOptions{}); err != nil {
		log.Fatal(err)
	}

	consumer, err := c.ConsumeLeased("jobs", 30*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer consumer.Close()
	d, err := consumer.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("working on %s\n", d.Data)
	err = d.Extend(ctx, time.Minute) // it takes longer: 60 s from now
	if err == nil {
		err = d.Confirm(ctx)
	}
	if errors.Is(err, client.ErrLost) {
		fmt.Println("too late: somebody else has the job")
	}
	// Output: working on resize image 7
}

// Schedule work: an item that is put with a delay comes when that is over.
func ExamplePutOptions_delay() {
	ctx := context.Background()
	c, stop := client.DialExample() // the first example has the real one
	defer stop()

	later := client.PutOptions{Delay: 300 * time.Millisecond}
	if err := c.Put(ctx, "reminders", []byte("call back"), later); err != nil {
		log.Fatal(err)
	}
	item, err := c.Get(ctx, "reminders", 5*time.Second) // waits for it
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(item.Data))
	// Output: call back
}

// Take items one by one, each tentatively.
func ExampleConsumer() {
	ctx := context.Background()
	c, stop := client.DialExample() // the first example has the real one
	defer stop()
	if err := c.Put(ctx, "work", []byte("resize image 7"), client.PutOptions{}); err != nil {
		log.Fatal(err)
	}

	consumer, err := c.Consume("work")
	if err != nil {
		log.Fatal(err)
	}
	defer consumer.Close()
	for i := range 2 {
		d, err := consumer.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if i == 0 {
			fmt.Printf("%s: not now\n", d.Data)
			err = d.Abort(ctx) // the next to come gets it
		} else {
			fmt.Printf("%s: done\n", d.Data)
			err = d.Confirm(ctx) // gone for good
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// resize image 7: not now
	// resize image 7: done
}

// Put many items in one call, and see which are not stored.
func ExampleClient_PutAll() {
	ctx := context.Background()
	c, stop := client.DialExample() // the first example has the real one
	defer stop()

	items := [][]byte{[]byte("one"), []byte("two"), []byte("three")}
	err := c.PutAll(ctx, "numbers", items, client.PutOptions{TTL: time.Hour})
	var failed *client.BatchError
	if errors.As(err, &failed) {
		for i, err := range failed.Items {
			switch {
			case errors.Is(err, client.ErrUnknownOutcome):
				fmt.Printf("%s may be there: put it again, if twice is better than not at all\n", items[i])
			case err != nil:
				fmt.Printf("%s is not there: %v\n", items[i], err)
			}
		}
	}
	fmt.Println(c.Stats(ctx)[0].Items, "items")
	// Output: 3 items
}

// Store items in batches: what is opened together is confirmed together, once it is stored.
func ExampleClient_OpenBatch() {
	ctx := context.Background()
	c, stop := client.DialExample() // the first example has the real one
	defer stop()
	items := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
	if err := c.PutAll(ctx, "rows", items, client.PutOptions{}); err != nil {
		log.Fatal(err)
	}

	var table strings.Builder
	for {
		batch, err := c.OpenBatch(ctx, "rows", 100, 0)
		if errors.Is(err, client.ErrEmpty) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		for _, item := range batch.Items {
			table.Write(item.Data)
		}
		if err := batch.Confirm(ctx); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(table.String())
	// Output: abc
}
