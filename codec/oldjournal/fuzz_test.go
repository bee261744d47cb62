package oldjournal

import (
	"bytes"
	"errors"
	"testing"
	"testing/fstest"
)

// FuzzDecode: a decoded record, encoded again, decodes to itself.
func FuzzDecode(f *testing.F) {
	for _, tt := range recordTests {
		f.Add(unhex(f, tt.bytes))
	}
	f.Add([]byte{10})
	f.Fuzz(func(t *testing.T, src []byte) {
		var rec, again Record
		n, err := Decode(src, &rec)
		var bad *RecordError
		if err != nil {
			if n != 0 || err != ErrIncomplete && !errors.As(err, &bad) {
				t.Fatalf("Decode(%x) = %d, %v", src, n, err)
			}
			return
		}
		if out := Append(nil, &rec); !bytes.Equal(out, src[:n]) {
			t.Fatalf("Decode(%x) = %+v, which is %x", src, rec, out)
		}
		if m, err := Decode(src[:n], &again); m != n || err != nil || !sameRecord(rec, again) {
			t.Fatalf("Decode(%x) = %+v, and then %+v, %v", src[:n], rec, again, err)
		}
	})
}

// FuzzLoad loads two files of any bytes. Whatever they are, the records that are read are those in
// front of the first that cannot be, in each file. Items lie inside the files; and damage is
// refused unless it is salvaged.
func FuzzLoad(f *testing.F) {
	for _, tt := range vectors {
		dir := directory(f, tt.files)
		for name, file := range dir {
			f.Add(file.Data, []byte{})
			f.Add([]byte{}, file.Data)
			f.Add(dir[name].Data, file.Data)
		}
	}
	f.Fuzz(func(t *testing.T, archived, current []byte) {
		dir := fstest.MapFS{"q.1": {Data: archived}, "q": {Data: current}}
		files := Files{"q", []string{"q.1", "q"}}
		q, err := Load(dir, files, LoadOptions{Salvage: true})
		if err != nil {
			t.Fatalf("salvage: %v", err)
		}
		records := countRecords(archived) + countRecords(current)
		if q.Records != records {
			t.Errorf("%d records, want %d", q.Records, records)
		}
		contents(t, dir, q)
		_, strict := Load(dir, files, LoadOptions{})
		var damage *DamageError
		if refused := errors.As(strict, &damage); refused != (len(q.Damaged) > 0) {
			t.Errorf("Load: %v; salvaged: %v", strict, q.Damaged)
		}
	})
}

// countRecords is how many whole records b begins with.
func countRecords(b []byte) (count int64) {
	var rec Record
	for {
		n, err := Decode(b, &rec)
		if err != nil {
			return count
		}
		b = b[n:]
		count++
	}
}
