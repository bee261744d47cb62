package client

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestPutDelayAndKey tests that items are hidden, and take the place of those with their key.
func TestPutDelayAndKey(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	ctx := within(t)
	put := func(data string, o PutOptions) error { return c.Put(ctx, "q", []byte(data), o) }
	for _, tt := range []struct {
		data string
		o    PutOptions
		want error
	}{
		{"0", PutOptions{Key: "K", Replace: true}, ErrNotStored},
		{"1", PutOptions{Key: "K", New: true}, nil},
		{"2", PutOptions{Key: "K", New: true}, ErrNotStored},
		{"3", PutOptions{Key: "K", Replace: true, Flags: 7}, nil},
		{"4", PutOptions{Delay: time.Hour, Key: "L"}, nil},
	} {
		if err := put(tt.data, tt.o); !errors.Is(err, tt.want) {
			t.Errorf("put of %s with %+v = %v, want %v", tt.data, tt.o, err, tt.want)
		}
	}
	for _, o := range []PutOptions{
		{Key: "a b"}, {Key: "a/b"}, {Key: "a\x7f"}, {Key: string(make([]byte, 251))}, {New: true}, {Replace: true},
		{Key: "K", New: true, Replace: true}, {Delay: -1},
	} {
		if err := put("x", o); err == nil || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("put with %+v = %v, want a refusal", o, err)
		}
	}
	if err := c.PutAll(ctx, "q", [][]byte{[]byte("a"), []byte("b")}, PutOptions{Key: "K"}); !errors.Is(err, errKeyOfSeveral) {
		t.Errorf("two items with one key = %v", err)
	}
	if item, err := c.Get(ctx, "q", 0); err != nil || string(item.Data) != "3" || item.Flags != 7 {
		t.Errorf("Get = %q with flags %d, %v; want 3 with 7", item.Data, item.Flags, err)
	}
	if _, err := c.Get(ctx, "q", 0); !errors.Is(err, ErrEmpty) {
		t.Errorf("a delayed item comes at once: %v", err)
	}
	if err := put("5", PutOptions{Delay: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if item, err := c.Get(ctx, "q", patience); err != nil || string(item.Data) != "5" {
		t.Errorf("Get of what was delayed = %q, %v", item.Data, err)
	}
}

// TestKeysNeedOneServer tests that a key is refused where nobody can say which server has it.
func TestKeysNeedOneServer(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr, serve(t).addr)
	if err := c.Put(within(t), "q", []byte("x"), PutOptions{Key: "K"}); !errors.Is(err, errKeyServers) {
		t.Errorf("put with a key = %v", err)
	}
}

func TestBrowse(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	ctx := within(t)
	large := bytes.Repeat([]byte("VALUE q/1 0 5\r\nEND\r\n"), 20_000) // what looks like replies, in pieces
	for i, item := range [][]byte{[]byte("one"), large, {}, []byte("four")} {
		o := PutOptions{Flags: uint32(i), Key: fmt.Sprint("key", i)}
		if i == 3 {
			o.Delay = time.Hour
		}
		if err := c.Put(ctx, "q", item, o); err != nil {
			t.Fatal(err)
		}
	}
	all, err := c.Browse(ctx, "q", BrowseOptions{Hidden: true})
	if err != nil || len(all) != 4 {
		t.Fatalf("%d items, %v, want 4", len(all), err)
	}
	for i, it := range all {
		if it.ID != uint64(i+1) || it.Key != fmt.Sprint("key", i) || it.Flags != uint32(i) || it.Added.IsZero() ||
			it.Due.IsZero() != (i != 3) || it.Server == "" {
			t.Errorf("item %d is %d with key %q, flags %d, due %v, added %v", i, it.ID, it.Key, it.Flags, it.Due, it.Added)
		}
	}
	if !bytes.Equal(all[1].Data, large) || len(all[2].Data) != 0 || string(all[3].Data) != "four" {
		t.Errorf("items of %d, %d and %d bytes", len(all[1].Data), len(all[2].Data), len(all[3].Data))
	}
	some, err := c.Browse(ctx, "q", BrowseOptions{From: 2, Limit: 1})
	if err != nil || len(some) != 1 || some[0].ID != 2 {
		t.Errorf("from 2, one: %d items, %v", len(some), err)
	}
	if it, err := c.Look(ctx, "q", 4, ""); err != nil || string(it.Data) != "four" || it.Key != "key3" {
		t.Errorf("Look at 4 = %q, %v", it.Data, err)
	}
	if it, err := c.Look(ctx, "q", 0, "key1"); err != nil || it.ID != 2 {
		t.Errorf("Look at key1 = %d, %v", it.ID, err)
	}
	if _, err := c.Look(ctx, "q", 9, ""); !errors.Is(err, ErrEmpty) {
		t.Errorf("Look at nothing = %v", err)
	}
	for key, want := range map[string]error{"": errBadWhich, "a/b": ErrBadKey, "a b": ErrBadKey} {
		if _, err := c.Look(ctx, "q", 0, key); !errors.Is(err, want) {
			t.Errorf("Look at %q = %v", key, err)
		}
	}
	if _, err := c.Browse(ctx, "q", BrowseOptions{Limit: 10_001}); !errors.Is(err, ErrRefused) {
		t.Errorf("a list of 10,001 = %v", err)
	}
}

// TestBrowseNeedsVersion tests that a server that would take an item is asked for its version only.
func TestBrowseNeedsVersion(t *testing.T) {
	old := rigged(t, answering("VERSION 2.4.1\r\n"))
	c := dial(t, Options{}, old.addr)
	if _, err := c.Browse(within(t), "q", BrowseOptions{}); !errors.Is(err, ErrTooOld) {
		t.Errorf("Browse of an old server = %v", err)
	}
	if _, err := c.Look(within(t), "q", 1, ""); !errors.Is(err, ErrTooOld) {
		t.Errorf("Look at an old server = %v", err)
	}
}
