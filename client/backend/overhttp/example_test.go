package overhttp_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/client/backend/embedded"
	"github.com/kestrelmq/kestrel/client/backend/overhttp"
)

// A server of any back end, and a client of it.
func Example() {
	ctx := context.Background()
	store, err := embedded.Memory(embedded.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	server := httptest.NewServer(overhttp.Handler(store))
	defer server.Close()

	b, err := overhttp.Open(server.URL, overhttp.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	events := backend.Queue{Account: "acme", Name: "events"}
	for _, id := range []string{"e1", "e2", "e3"} {
		if _, err := b.Put(ctx, backend.Key{Queue: events, ID: id}, []byte("event "+id), backend.Attributes{}); err != nil {
			fmt.Println(err)
		}
	}
	for m, err := range b.Messages(ctx, events, backend.Match{Marker: "e1", Detail: backend.All}) { // a subscriber who has seen e1
		fmt.Println(m.ID, string(m.Body), err)
	}
	// Output:
	// e2 event e2 <nil>
	// e3 event e3 <nil>
}
