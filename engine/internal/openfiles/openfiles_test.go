package openfiles

import "testing"

// TestShare checks that the shares add up for every number of descriptors, and that each use can go on.
func TestShare(t *testing.T) {
	for n := Min; n <= Most+10; n++ {
		s := Share(n)
		if sum := own + 2*s.Unsynced + s.Writers + s.Readers; sum > n || sum > Most {
			t.Errorf("Share(%d) = %+v, which is %d in all", n, s, sum)
		}
		if s.Unsynced < minUnsynced || s.Writers < minRuns || s.Readers < minRuns {
			t.Errorf("Share(%d) = %+v: too few", n, s)
		}
		if g := s.Growing(); g < 1 || g >= s.Writers {
			t.Errorf("Share(%d): %d of %d writers may grow", n, g, s.Writers)
		}
	}
	if got, want := Share(Most), (Shares{Unsynced: maxUnsynced, Writers: maxRuns, Readers: maxRuns}); got != want {
		t.Errorf("Share(Most) = %+v, want %+v", got, want)
	}
}
