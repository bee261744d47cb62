package segmenttest

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// fateModel knows of one file which contents a power cut may leave.
type fateModel struct {
	now     []byte
	durable []byte
	maybe   map[int][]byte // by offset, the bytes that may be there instead of the durable one
	fresh   map[int]bool   // offsets written since the last Datasync
	sizes   map[int]bool   // lengths since the last Datasync that succeeded
}

func newFateModel() *fateModel {
	return &fateModel{maybe: map[int][]byte{}, fresh: map[int]bool{}, sizes: map[int]bool{0: true}}
}

func (m *fateModel) write(p []byte, off int) {
	m.extend(off + len(p))
	copy(m.now[off:], p)
	for i, b := range p {
		m.maybe[off+i] = append(m.maybe[off+i], b)
		m.fresh[off+i] = true
	}
}

func (m *fateModel) extend(size int) {
	if size > len(m.now) {
		m.now = append(m.now, make([]byte, size-len(m.now))...)
	}
	m.sizes[size] = true
}

func (m *fateModel) cut(size int) {
	for i := size; i < len(m.now); i++ {
		m.maybe[i] = append(m.maybe[i], 0)
		m.fresh[i] = true
	}
	m.now = m.now[:min(size, len(m.now))]
	m.sizes[size] = true
}

// sync makes the fresh bytes durable; those that a failed Datasync covered stay in doubt.
func (m *fateModel) sync(failed bool) {
	if !failed {
		for i := range m.fresh {
			delete(m.maybe, i)
			if i < len(m.now) {
				m.durable = append(m.durable, make([]byte, max(0, i+1-len(m.durable)))...)
				m.durable[i] = m.now[i]
			}
		}
	}
	m.fresh = map[int]bool{}
}

// explain returns why a power cut cannot have left data; "" if it can.
func (m *fateModel) explain(data []byte) string {
	longest := max(slices.Max(slices.Collect(maps.Keys(m.sizes))), len(m.durable))
	shortest := min(slices.Min(slices.Collect(maps.Keys(m.sizes))), len(m.durable))
	if len(data) < shortest || len(data) > longest {
		return fmt.Sprintf("%d bytes, want %d to %d", len(data), shortest, longest)
	}
	for i, b := range data {
		certain := i < len(m.durable) && m.durable[i] == b || i >= len(m.durable) && b == 0
		if !certain && !slices.Contains(m.maybe[i], b) {
			return fmt.Sprintf("byte %d is %#x, may be %#x", i, b, m.maybe[i])
		}
	}
	return ""
}

func drawBytes(t *rapid.T) []byte {
	seed := rapid.ByteRange(1, 200).Draw(t, "first byte")
	p := make([]byte, rapid.IntRange(1, 3*sectorSize).Draw(t, "size"))
	for i := range p {
		p[i] = seed + byte(i%50)
	}
	return p
}

// checkFates compares images of f, which has the one file "f" durably, with the model.
func checkFates(t *rapid.T, f *FS, m *fateModel) {
	seed := rapid.Uint64().Draw(t, "seed")
	opts := []CutOptions{{Seed: seed}, {Seed: seed, ReorderMetadata: true}, lose, {Mode: Keep}}
	for _, opt := range opts {
		got, err := f.PowerCut(opt).Bytes("f")
		check(t, err)
		if why := m.explain(got); why != "" {
			t.Fatalf("%+v: impossible content: %s", opt, why)
		}
		killed, err := f.Kill().PowerCut(opt).Bytes("f")
		if string(killed) != string(got) || err != nil {
			t.Fatalf("%+v: power cut after kill leaves other content, %v", opt, err)
		}
		switch {
		case opt.Mode == Keep && string(got) != string(m.now):
			t.Fatalf("Keep leaves %d bytes, want the %d written", len(got), len(m.now))
		case opt.Mode == Lose && string(got) != string(m.durable):
			t.Fatalf("Lose leaves %d bytes, want the %d synced", len(got), len(m.durable))
		}
	}
}

func TestPowerCutContents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, m := New(), newFateModel()
		h := create(t, f, "f")
		check(t, f.SyncDir("/"))
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				p, off := drawBytes(t), rapid.IntRange(0, 2*pageSize).Draw(t, "offset")
				write(t, h, string(p), int64(off))
				m.write(p, off)
			},
			"resize": func(t *rapid.T) {
				size := rapid.IntRange(0, 3*pageSize).Draw(t, "size")
				check(t, h.Truncate(int64(size)))
				m.cut(size)
				m.extend(size)
			},
			"datasync": func(*rapid.T) {
				check(t, h.Datasync())
				m.sync(false)
				m.durable = slices.Clone(m.now)
				m.sizes = map[int]bool{len(m.now): true}
			},
			"": func(t *rapid.T) { checkFates(t, f, m) },
		})
	})
}

func TestPowerCutContentsWithFailedSyncs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, m := New(), newFateModel()
		h := create(t, f, "f")
		check(t, f.SyncDir("/"))
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				p, off := drawBytes(t), rapid.IntRange(0, 2*pageSize).Draw(t, "offset")
				write(t, h, string(p), int64(off))
				m.write(p, off)
			},
			"datasync": func(t *rapid.T) {
				failed := rapid.Bool().Draw(t, "fails")
				f.SetFault(func(Op) Fault { return Fault{} })
				if failed {
					f.SetFault(FailAllFrom(OpDatasync, 0, syscall.EIO))
				}
				if err := h.Datasync(); (err != nil) != failed {
					t.Fatalf("Datasync = %v, want an error: %v", err, failed)
				}
				m.sync(failed)
			},
			"": func(t *rapid.T) { checkFates(t, f, m) },
		})
	})
}
