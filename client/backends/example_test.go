package backends_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/client/backends"
)

// The same program runs over servers, a directory or memory: the URL says which.
func Example() {
	ctx := context.Background()
	b, err := backends.Open("memory://", backends.Options{Account: "acme"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()

	users := backend.Queue{Name: "users-to-index"} // of account acme
	for _, id := range []string{"ann", "bob", "ann"} {
		created, err := b.Put(ctx, backend.Key{Queue: users, ID: id}, nil, backend.Attributes{})
		fmt.Println(id, created, err)
	}
	got, err := b.DeleteMessages(ctx, users, backend.Match{Limit: 10, Detail: backend.IDs})
	fmt.Println(len(got), err)
	_, err = b.DeleteMessages(ctx, users, backend.Match{Limit: 10, Detail: backend.IDs})
	fmt.Println(err, errors.Is(err, backend.ErrNotFound))
	// Output:
	// ann true <nil>
	// bob true <nil>
	// ann false <nil>
	// 2 <nil>
	// Account not found true
}
