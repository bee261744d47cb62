package oldjournal

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// script is the bytes of a file, written as a word for each record:
//
//	A(x)     OpAddX of x, added at at; A() is an empty item
//	E(ms)x   OpAddX of x that expires at ms
//	X(n)x    OpAddXID n of x           W(n)x  OpContinue n of x
//	R T      OpRemove, OpRemoveTentative
//	V(n) U(n) C(n) S(n)   OpRemoveTentativeXID, OpUnremove, OpConfirmRemove, OpSaveXID
//	0x…      bytes                     0*n    n zero bytes
func script(t testing.TB, s string) []byte {
	t.Helper()
	var b []byte
	for _, word := range strings.Fields(s) {
		if digits, ok := strings.CutPrefix(word, "0x"); ok {
			b = append(b, unhex(t, digits)...)
			continue
		}
		if n, ok := strings.CutPrefix(word, "0*"); ok {
			count, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			b = append(b, make([]byte, count)...)
			continue
		}
		rec, err := scriptRecord(word)
		if err != nil {
			t.Fatal(err)
		}
		b = Append(b, &rec)
	}
	return b
}

func scriptRecord(word string) (Record, error) {
	ops := map[byte]Op{
		'A': OpAddX, 'E': OpAddX, 'X': OpAddXID, 'W': OpContinue, 'R': OpRemove,
		'T': OpRemoveTentative, 'V': OpRemoveTentativeXID, 'U': OpUnremove, 'C': OpConfirmRemove,
		'S': OpSaveXID,
	}
	op, ok := ops[word[0]]
	rec := Record{Op: op}
	if !ok {
		return rec, fmt.Errorf("bad word %q", word)
	}
	arg, data, _ := strings.Cut(strings.TrimPrefix(word[1:], "("), ")")
	if op.hasItem() {
		rec.Added = at
	}
	switch n, err := strconv.ParseInt(arg, 10, 64); {
	case word[0] == 'A':
		rec.Data = []byte(arg)
	case word[0] == 'E':
		rec.Expiry, rec.Data = n, []byte(data)
	case op.hasXID():
		if err != nil {
			return rec, err
		}
		rec.XID, rec.Data = int32(n), []byte(data)
	}
	return rec, nil
}

// directory is a directory of scripts, by the names of files.
func directory(t testing.TB, files map[string]string) fstest.MapFS {
	t.Helper()
	dir := make(fstest.MapFS)
	for name, s := range files {
		dir[name] = &fstest.MapFile{Data: script(t, s)}
	}
	return dir
}

// planned is Plan of a directory.
func planned(dir fstest.MapFS) ([]Files, []Skipped) {
	var names []string
	for name := range dir {
		names = append(names, name)
	}
	return Plan(names)
}

// contents are the items of a loaded queue, as text.
func contents(t testing.TB, dir fstest.MapFS, q *Queue) []string {
	t.Helper()
	bodies := q.Bodies(dir)
	items := []string{}
	for _, it := range q.Items {
		b, err := bodies.Append([]byte("-"), it)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, string(b[1:]))
	}
	if err := bodies.Close(); err != nil {
		t.Fatal(err)
	}
	return items
}
