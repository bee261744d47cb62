package segmenttest

import "math/rand/v2"

// keepOdds are the probabilities with which the unsynced changes of a file survive; each file draws
// one. With a fixed one a long log would hardly ever survive almost whole, or almost not at all.
var keepOdds = [...]float64{0, 0.125, 0.5, 0.875, 1}

// survivor returns what a power cut leaves of a file.
func (n *inode) survivor(opts CutOptions) content {
	switch {
	case opts.Mode == Keep:
		return n.current.share()
	case len(n.log) == 0:
		return n.durable.share()
	}
	c := n.durable.share()
	if opts.Mode == Lose {
		for _, ch := range n.log {
			if ch.state == synced {
				ch.apply(&c)
			}
		}
		return c
	}
	t := tearer{rng: rand.New(rand.NewPCG(opts.Seed, n.id)), reorder: opts.ReorderMetadata, c: &c}
	t.keep = keepOdds[t.rng.IntN(len(keepOdds))]
	t.run(n.log)
	return c
}

// tearer applies a random part of a file's log to what was durable of it.
type tearer struct {
	rng     *rand.Rand
	keep    float64 // probability that a change survives
	reorder bool    // a lost metadata change does not take the later ones with it
	c       *content

	metadataLost bool
}

// run applies what survives. Writes are reordered between changes that keep their place: those
// that are durable and those of the length.
func (t *tearer) run(log []change) {
	var writes []change // unsynced, gathered until the next that keeps its place
	for _, ch := range log {
		if ch.state != synced && ch.kind == changeWrite {
			writes = append(writes, ch)
			continue
		}
		t.writes(writes)
		writes = writes[:0]
		if ch.state == synced || t.keepsMetadata() {
			ch.apply(t.c)
		}
	}
	t.writes(writes)
}

// keepsMetadata decides whether a change of the length survives.
func (t *tearer) keepsMetadata() bool {
	if t.metadataLost {
		return false
	}
	kept := t.rng.Float64() < t.keep
	t.metadataLost = !kept && !t.reorder
	return kept
}

// writes applies what survives of some writes, in any order.
func (t *tearer) writes(writes []change) {
	t.rng.Shuffle(len(writes), func(i, j int) { writes[i], writes[j] = writes[j], writes[i] })
	for _, ch := range writes {
		switch {
		case t.rng.IntN(2) == 0:
			t.torn(ch)
		case t.rng.Float64() < t.keep:
			ch.apply(t.c)
		}
	}
}

// torn applies some sectors of a write. The length it gave the file survives or not by itself.
func (t *tearer) torn(ch change) {
	for from := int64(0); from < ch.size; {
		to := min(ch.size, (ch.off+from)/sectorSize*sectorSize+sectorSize-ch.off)
		if t.rng.Float64() < t.keep {
			ch.applyPart(t.c, from, to)
		}
		from = to
	}
	if t.rng.Float64() < t.keep {
		t.c.size = max(t.c.size, ch.off+ch.size)
	}
}
