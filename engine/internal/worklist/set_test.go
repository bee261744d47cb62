package worklist

import "testing"

// TestSetInPieces tests that a list of many values lets others have the mutex between two pieces. They may add values and
// take some away.
func TestSetInPieces(t *testing.T) {
	var s Set[int]
	values, pieces := make([]int, 3*allPiece+2), 0
	for i := range values {
		if i != 1 {
			s.Add(&values[i])
		}
	}
	listed := make(map[*int]bool)
	for _, value := range s.All(func() {
		pieces++
		s.Remove(&values[0])
		s.Add(&values[1])
	}) {
		listed[value] = true
	}
	for i := range values {
		if i > 1 && !listed[&values[i]] {
			t.Errorf("value %d is missing", i)
		}
	}
	if pieces != 3 {
		t.Errorf("the list lets others in %d times, want 3", pieces)
	}
	if all := s.All(func() {}); len(all) != len(values)-1 {
		t.Errorf("%d values are there, want all but one of %d", len(all), len(values))
	}
}
