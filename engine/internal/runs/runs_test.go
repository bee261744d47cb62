package runs

import (
	"errors"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestTagGolden writes a tag and reads it back, byte by byte as FORMAT.md has it.
func TestTagGolden(t *testing.T) {
	tag := Tag{FirstID: 0x0102030405060708, LastID: 0x0102030405060709, Count: 2, Bytes: 0x0a0b}
	encoded := tag.Encode()
	const want = "\x08\x07\x06\x05\x04\x03\x02\x01\x09\x07\x06\x05\x04\x03\x02\x01\x02\x00\x00\x00\x0b\x0a\x00\x00"
	if got := string(encoded[:]); got != want {
		t.Errorf("Encode = %x, want %x", got, want)
	}
	if got := ParseTag(encoded); got != tag {
		t.Errorf("ParseTag = %+v, want %+v", got, tag)
	}
}

// TestCheck compares bodies with tags that say something else of them.
func TestCheck(t *testing.T) {
	body := item.AppendImage(item.AppendImage(nil, &item.Item{Data: []byte("one")}), &item.Item{Data: []byte("three")})
	sound := Tag{FirstID: 7, LastID: 8, Count: 2, Bytes: 8}
	if n, err := sound.Check(body); err != nil || n.Count != 2 || n.Bytes != 8 {
		t.Errorf("Check of a sound body = %+v, %v", n, err)
	}
	for name, wrong := range map[string]Tag{
		"another last id": {FirstID: 7, LastID: 9, Count: 2, Bytes: 8},
		"more items":      {FirstID: 7, LastID: 8, Count: 3, Bytes: 8},
		"fewer bytes":     {FirstID: 7, LastID: 8, Count: 2, Bytes: 7},
	} {
		if _, err := wrong.Check(body); err == nil {
			t.Errorf("%s: Check finds nothing wrong", name)
		}
	}
	if _, err := sound.Check(body[:len(body)-1]); err == nil {
		t.Error("Check finds nothing wrong with a body that is cut short")
	}
}

// TestName reads names of runs, and of files that are none.
func TestName(t *testing.T) {
	if got := Path("dir", 7); got != "dir/0000000007.run" {
		t.Errorf("Path = %s", got)
	}
	for name, want := range map[string]uint64{
		"0000000007.run": 7, "9999999999.run": 9999999999, "12345678901.run": 12345678901,
		"7.run": 0, "0000000007.seg": 0, "0000000007.run~": 0, "": 0,
	} {
		if got, ok := ParseName(name); ok != (want > 0) || ok && got != want {
			t.Errorf("ParseName(%q) = %d, %t, want %d", name, got, ok, want)
		}
	}
}

// TestPlausible asks for states that no run has.
func TestPlausible(t *testing.T) {
	sound := State{FirstID: 5, LastID: 9, Count: 3, Bytes: 10, End: 4096}
	if !sound.Plausible() {
		t.Errorf("%+v is not plausible", sound)
	}
	for name, change := range map[string]func(*State){
		"no id":               func(s *State) { s.FirstID = 0 },
		"first above last":    func(s *State) { s.FirstID = 10 },
		"more items than ids": func(s *State) { s.Count = 6 },
		"no items":            func(s *State) { s.Count = 0 },
		"no frames":           func(s *State) { s.End = 64 },
	} {
		s := sound
		if change(&s); s.Plausible() {
			t.Errorf("%s: %+v is plausible", name, s)
		}
	}
}

// TestCheckJournal has logs without a segment: new ones, and such as have had one.
func TestCheckJournal(t *testing.T) {
	for name, missing := range map[string]bool{
		"data/journal/0000000001.new":    false, // the first start was killed
		"data/journal/lost+found":        false,
		"data/journal/0000000002.seg":    false, // who reads it sees what is wrong
		"data/journal/0000000001.spare":  true,
		"data/journal/0000000003.torn":   true,
		"data/journal/0000000003.torn.2": true,
		"data/journal/complete":          true,
		"data/backlog/0000000001.run":    true,
		"data/backlog/other":             false,
	} {
		fsys := segmenttest.New()
		if err := fsys.WriteFile(name, nil); err != nil {
			t.Fatal(err)
		}
		var damage *segment.CorruptionError
		err := CheckJournal(fsys, "data/backlog", "data/journal")
		if missing != errors.As(err, &damage) || err != nil && !missing {
			t.Errorf("with %s alone: CheckJournal = %v, want damage: %t", name, err, missing)
		}
	}
}
