package embedded_test

import (
	"context"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/client/backend/embedded"
)

// A worker hides the next message while it works on it, and deletes it when it is done.
func Example() {
	ctx := context.Background()
	b, err := embedded.Memory(embedded.Options{}) // embedded.Open keeps them in a directory
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()

	work := backend.Queue{Account: "acme", Name: "resize"}
	created, err := b.Put(ctx, backend.Key{Queue: work, ID: "job-1"}, []byte("cat.png"), backend.Attributes{TTL: time.Hour})
	fmt.Println(created, err)

	next := backend.Match{Limit: 1, Wait: 30 * time.Second, Detail: backend.All}
	got, err := b.UpdateMessages(ctx, work, backend.Attributes{Hide: time.Minute}, next)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %s, hidden for %v\n", got[0].ID, got[0].Body, got[0].Hide)

	_, err = b.DeleteMessage(ctx, backend.Key{Queue: work, ID: got[0].ID}, backend.None)
	fmt.Println(err)
	_, err = backend.Collect(b.Messages(ctx, work, backend.Match{Detail: backend.IDs}))
	fmt.Println(err)
	// Output:
	// true <nil>
	// job-1: cat.png, hidden for 1m0s
	// <nil>
	// Account not found
}
