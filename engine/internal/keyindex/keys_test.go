package keyindex

import (
	"sync/atomic"
	"testing"
)

// TestKeys gives keys to items, and takes them away.
func TestKeys(t *testing.T) {
	k := NewKeys(new(atomic.Int64))
	a, b := []byte("a"), []byte("b")
	k.Note(a, 5)
	k.NoteNewest(a, 4)
	k.NoteNewest(b, 4)
	k.Forget(a, 4)
	for _, tt := range []struct {
		key  []byte
		want uint64
	}{{a, 5}, {b, 4}} {
		if id, ok := k.Of(tt.key); !ok || id != tt.want {
			t.Errorf("key %s has item %d, %t, want %d", tt.key, id, ok, tt.want)
		}
	}
	k.NoteNewest(b, 6)
	k.Note(a, 3)
	if id, _ := k.Of(b); id != 6 {
		t.Errorf("a newer item has the key, and %d is found", id)
	}
	if id, _ := k.Of(a); id != 3 {
		t.Errorf("another item got the key, and %d is found", id)
	}
	k.Forget(a, 3)
	if id, ok := k.Of(a); ok || k.Len() != 1 {
		t.Errorf("item %d is found for a key that nobody has, of %d", id, k.Len())
	}
}
