package engine

import (
	"errors"
	"strings"
	"testing"
)

func TestValidateName(t *testing.T) { // reference §4.1
	for _, tt := range []struct {
		name   string
		reason string // "" if it is legal
	}{
		{"work", ""},
		{"Work-2_x", ""},
		{"a b", ""},
		{"tab\tand\x01control", ""},
		{"jobs+client", ""},
		{"a+b+c", ""},
		{"+x", ""},
		{"x+", ""},
		{"é!\"§$%&()=?", ""},
		{strings.Repeat("x", MaxNameSize), ""},
		{"", "is empty"},
		{strings.Repeat("x", MaxNameSize+1), "is longer than 255 bytes"},
		{strings.Repeat("é", MaxNameSize/2+1), "is longer than 255 bytes"},
		{"a.b", "contains illegal characters (one of: ~ . / NUL)"},
		{"a/b", ""},
		{"a/b/c", "contains illegal characters (one of: ~ . / NUL)"},
		{"/b", "contains illegal characters (one of: ~ . / NUL)"},
		{"a~", "contains illegal characters (one of: ~ . / NUL)"},
		{"a\x00b", "contains illegal characters (one of: ~ . / NUL)"},
		{"+", "consists of + only"},
		{"+++", "consists of + only"},
		{"\xff", "is not UTF-8"},
	} {
		err := ValidateName(tt.name)
		if tt.reason == "" {
			if err != nil {
				t.Errorf("ValidateName(%q) = %v, want nil", tt.name, err)
			}
			continue
		}
		var bad *NameError
		if !errors.As(err, &bad) || bad.Reason != tt.reason || !errors.Is(err, ErrBadName) {
			t.Errorf("ValidateName(%q) = %v, want that it %s", tt.name, err, tt.reason)
		}
	}
}

// TestNamesSurvive puts to names with all kinds of bytes and finds them again.
func TestNamesSurvive(t *testing.T) {
	e, fsys := newQuiet(t)
	names := []string{"a b", "tab\tx", "é", "p+c", "+x", "x+", strings.Repeat("x", MaxNameSize)}
	for _, name := range names {
		mustPut(t, e, name, "item of "+name)
	}
	e = openQuiet(t, testOptions(fsys.Kill()))
	for _, name := range names {
		wantItems(t, e, name, "item of "+name)
	}
}
