package item

import (
	"reflect"
	"testing"
)

// TestItemFitsRegisters: a call passes nine words in registers on amd64, and a struct that needs more goes through
// the stack as a whole. An Item and a receiver must fit.
func TestItemFitsRegisters(t *testing.T) {
	if n := words(reflect.TypeFor[Item]()); n > 8 {
		t.Errorf("an Item has %d words, want 8 at most", n)
	}
}

// words is how many registers a value takes.
func words(t reflect.Type) (n int) {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			n += words(t.Field(i).Type)
		}
		return n
	case reflect.Slice:
		return 3
	case reflect.String, reflect.Interface:
		return 2
	}
	return 1
}
