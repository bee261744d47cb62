package segmenttest

import (
	"math/rand/v2"
	"slices"
)

// survivingNames is what a power cut leaves of the names that were not durable, by directory, on
// top of those that were. Nil is a name that is gone.
type survivingNames map[*inode]map[string]*inode

// namesSeed keeps the draws for names apart from those for files, which are seeded by inode
// numbers.
const namesSeed = 0

// tearNames draws what survives of the operations that are not durable.
func tearNames(ops []*nameOp, opts CutOptions) survivingNames {
	s := make(survivingNames)
	if len(ops) == 0 {
		return s
	}
	rng := rand.New(rand.NewPCG(opts.Seed, namesSeed))
	if opts.ReorderMetadata {
		keep := keepOdds[rng.IntN(len(keepOdds))]
		for _, op := range ops {
			if rng.Float64() < keep && s.fits(op) {
				s.apply(op)
			}
		}
		return s
	}
	left := drawPrefixes(ops, rng)
	for _, op := range ops {
		if op.dropped { // no journal has it, so it obeys no order
			if rng.IntN(2) == 0 && s.fits(op) {
				s.apply(op)
			}
			continue
		}
		if op.takeFrom(left, s.fits(op)) {
			s.apply(op)
		}
	}
	return s
}

// drawPrefixes draws how many of the operations in each directory survive.
func drawPrefixes(ops []*nameOp, rng *rand.Rand) map[*inode]int {
	counts := make(map[*inode]int)
	var dirs []*inode // in the order of their first operation: a map has none
	for _, op := range ops {
		if op.dropped {
			continue
		}
		for _, dir := range op.dirs() {
			if counts[dir] == 0 {
				dirs = append(dirs, dir)
			}
			counts[dir]++
		}
	}
	for _, dir := range dirs {
		counts[dir] = rng.IntN(counts[dir] + 1)
	}
	return counts
}

// takeFrom takes op from the prefixes of its directories, and reports whether it fits and was in
// all of them. If not, they end here: what came later in one of them is lost too.
func (op *nameOp) takeFrom(left map[*inode]int, fits bool) bool {
	kept := fits
	for _, dir := range op.dirs() {
		kept = kept && left[dir] > 0
	}
	for _, dir := range op.dirs() {
		if kept {
			left[dir]--
		} else {
			left[dir] = 0
		}
	}
	return kept
}

// dirs returns the one or two directories of op.
func (op *nameOp) dirs() []*inode {
	first := op.changes[0].dir
	if last := op.changes[len(op.changes)-1].dir; last != first {
		return []*inode{first, last}
	}
	return []*inode{first}
}

func (s survivingNames) get(dir *inode, name string) *inode {
	if n, ok := s[dir][name]; ok {
		return n
	}
	return dir.durableEntries[name]
}

// fits reports whether op can have happened to the names that survived so far: each name it changes
// has what it had before op. So a lost operation takes along those that build on it.
func (s survivingNames) fits(op *nameOp) bool {
	return !slices.ContainsFunc(op.changes, func(ch nameChange) bool {
		return s.get(ch.dir, ch.name) != ch.old
	})
}

// apply makes the changes of an operation that fits.
func (s survivingNames) apply(op *nameOp) {
	for _, ch := range op.changes {
		if s[ch.dir] == nil {
			s[ch.dir] = make(map[string]*inode)
		}
		s[ch.dir][ch.name] = ch.new
	}
}
