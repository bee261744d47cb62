package repair

import (
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// surveyMarks notes a file of what is gone that the journal names.
func (v *Salvage) surveyMarks(rec *record.Record) {
	if number := rec.Marks.Run.Number; number != 0 {
		v.d.lastRun = max(v.d.lastRun, number)
		v.marks[number] = true
	}
}

// marksOf adds to what is gone of q what its file says, as far as that is whole. What only a gap had is there again.
func (v *Salvage) marksOf(q *salvagedQueue) error {
	m := q.Marked
	if m.Run.Number == 0 {
		return nil
	}
	q.marks = runs.Path(v.d.place.Runs, m.Run.Number)
	all := idset.BitmapOf(q.Gone)
	gaps, err := segment.SalvageRun(v.d.place.FS, q.marks, m.Run, m.End, &v.d.decoder,
		func(frame segment.RunFrame, body []byte) error {
			ids, err := marks.Parse(frame.Tag, body)
			if err != nil {
				return corrupt(q.marks, frame.Offset, err)
			}
			all.AddAll(&ids)
			return nil
		})
	if err != nil {
		return err
	}
	for _, g := range gaps {
		v.d.Gaps = append(v.d.Gaps, g.Gap)
	}
	q.Gone = all.Ranges()
	return nil
}
