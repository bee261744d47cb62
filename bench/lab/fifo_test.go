package main

import (
	"strings"
	"testing"
)

// TestFifo breaks the promises on purpose: the checker must object, and must not object to what may come. Items up to
// 5 were acknowledged when the server was killed, and items up to 8 were sent. Items up to 2 were removed for sure,
// and one request to remove was not answered. Then 9 and 10 were put.
func TestFifo(t *testing.T) {
	for _, tt := range []struct {
		name  string
		came  []int
		ended bool
		want  string // in the objection; "" for none
	}{
		{"all of them", []int{3, 4, 5, 6, 7, 8, 9, 10}, true, ""},
		{"the unanswered request has taken its item", []int{4, 5, 6, 7, 8, 9, 10}, true, ""},
		{"no unanswered put is there", []int{3, 4, 5, 9, 10}, true, ""},
		{"some unanswered puts are there", []int{3, 4, 5, 6, 9, 10}, true, ""},
		{"a removed item is back", []int{2, 3}, false, "item 2 came"},
		{"two items are gone", []int{5}, false, "item 4 is missing"},
		{"an item is lost", []int{3, 5}, false, "item 4 is missing"},
		{"the last acknowledged item is lost", []int{3, 4, 9}, false, "item 5 is missing"},
		{"an item comes twice", []int{3, 4, 4}, false, "item 4 came"},
		{"items come out of order", []int{3, 5, 4}, false, "item 4 is missing"},
		{"a hole in the unanswered puts", []int{3, 4, 5, 7}, false, "item 6 is missing"},
		{"the end is missing", []int{3, 4, 5, 9}, true, "item 10 is missing"},
		{"everything is missing", nil, true, "item 4 is missing"},
	} {
		f := &fifo{next: 3, acked: 5}
		f.crashed(3, 8, 1)
		var err error
		for _, item := range tt.came {
			if err == nil {
				err = f.came(item)
			}
		}
		if err == nil && tt.ended {
			err = f.ended(10)
		}
		if tt.want == "" && err != nil || tt.want != "" &&
			(err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

// What was open when a client hung up, or a server was killed, comes again. An unanswered put that was found to be
// missing stays missing.
func TestFifoAgain(t *testing.T) {
	f := &fifo{next: 1, acked: 2}
	f.crashed(1, 5, 0)
	expect := func(item int, want bool) {
		t.Helper()
		if err := f.came(item); (err == nil) != want {
			t.Fatalf("item %d: got %v, want it to be right: %t", item, err, want)
		}
	}
	for _, item := range []int{1, 2, 3, 6} {
		expect(item, true)
	}
	f.crashed(2, 6, 0)
	c := f.clone()
	for _, item := range []int{2, 3, 6} {
		expect(item, true)
	}
	f = c
	expect(2, true)
	expect(6, false) // for item 3 was there
}
