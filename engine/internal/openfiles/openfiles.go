package openfiles

const (
	// own are those that are always allowed for:
	//
	//	1  the lock
	//	4  the directories of data, backlogs, the journal and one that replaces it
	//	4  the tail and the prepared segment of both journals
	//	1  what is listed, or made complete
	//	2  of the recording side, a run and its copy
	//	2  a hidden run that is written, and one that is copied to it
	//	2  a run that is thinned, and its copy
	//	2  files of marks, of a checkpoint and of a reload
	//	2  of a reload, a run in doubt and its copy
	own = 1 + 4 + 4 + 1 + 2 + 2 + 2 + 2 + 2
	// minUnsynced and maxUnsynced bound the sealed segments of a journal that wait for a sync.
	minUnsynced, maxUnsynced = 2, 32
	// minRuns and maxRuns bound the runs that are open for writing, and those for reading.
	minRuns, maxRuns = 2, 64

	// Min is how many descriptors an engine needs.
	Min = own + 2*minUnsynced + 2*minRuns
	// Most is how many an engine has use for.
	Most = own + 2*maxUnsynced + 2*maxRuns
)

// Shares are how many descriptors each use has. None of the numbers is ever exceeded.
type Shares struct {
	Unsynced int // sealed segments of one journal that wait for a sync; a move has two journals
	Writers  int // runs open for writing, those included that are full and wait for a sync
	Readers  int // runs open for reading
}

// Share shares out n descriptors, of which there are at least Min.
func Share(n int) Shares {
	spare := min(n, Most) - Min
	part := func(least, most int) int { return least + (most-least)*spare/(Most-Min) }
	return Shares{
		Unsynced: part(minUnsynced, maxUnsynced),
		Writers:  part(minRuns, maxRuns),
		Readers:  part(minRuns, maxRuns),
	}
}

// Growing is how many runs may grow at a time. A quarter of the writers is for runs that are full, so that their sync
// does not keep the next run waiting.
func (s Shares) Growing() int { return max(s.Writers-max(s.Writers/4, 1), 1) }
