package loadtest

// A batch is the bytes of up to Pipeline requests, and of the replies due, in order. It does not
// change once built, except those that a connection builds for each send.
type batch struct {
	requests   []byte
	requestEnd []int  // requestEnd[i] is the offset behind request i
	replies    []byte // examples where not exact
	replyEnd   []int  // replyEnd[i] is the offset behind the reply to request i
	exact      bool   // no other replies are right, except misses
}

func (b *batch) reset() {
	b.requests, b.requestEnd = b.requests[:0], b.requestEnd[:0]
	b.replies, b.replyEnd = b.replies[:0], b.replyEnd[:0]
	b.exact = true
}

// add adds a request and the reply due to it.
func (b *batch) add(p protocol, r *request) {
	b.requests = p.appendRequest(b.requests, r)
	b.requestEnd = append(b.requestEnd, len(b.requests))
	exact := false
	b.replies, exact = p.appendReply(b.replies, r)
	b.replyEnd = append(b.replyEnd, len(b.replies))
	b.exact = b.exact && exact
}

// replyDue returns the bytes of the reply due to request i.
func (b *batch) replyDue(i int) []byte {
	start := 0
	if i > 0 {
		start = b.replyEnd[i-1]
	}
	return b.replies[start:b.replyEnd[i]]
}

// group is a Group in a run: what its connections share, immutable.
type group struct {
	*Group
	index    int
	protocol protocol
	cycle    []requestKind
	endless  bool // a get is answered only when there is an item
	stepwise bool // a batch holds requests of one kind, as a confirm names what was opened before it
	letters  letters
	items    [][]byte // the items of a put, unless values are unique
	queues   []string // names

	// batches[queue][step] is a full one that begins at that step of the cycle; nil if values are
	// unique, or requests depend on replies.
	batches [][]batch
}

// newGroup prepares a group of a run.
func newGroup(o *Options, index int) *group {
	g := &group{Group: &o.Groups[index], index: index}
	unique := o.Ledger != nil
	g.protocol = newProtocol(o, g.Group)
	g.cycle = g.Operation.cycle()
	g.letters = newLetters(g.ItemSize)
	g.stepwise = g.Operation == Monitor || g.Operation == Lease ||
		g.Operation == CloseOpen || len(g.cycle) > 1 && g.protocol.named() && g.opens()
	value := appendValue(nil, g.ItemSize, stamp{}, g.letters)
	for range g.Burst {
		g.items = append(g.items, value)
	}
	for i := range min(g.Queues, g.Connections) {
		g.queues = append(g.queues, g.QueueName(i))
	}
	_, g.endless = g.protocol.(endless)
	_, own := g.protocol.(personal)
	if unique || g.stepwise || own {
		return g
	}
	g.batches = make([][]batch, len(g.queues))
	for i, queue := range g.queues {
		g.batches[i] = make([]batch, len(g.cycle))
		for step := range g.cycle {
			g.batches[i][step].reset()
			for n := range g.Pipeline {
				g.batches[i][step].add(g.protocol, &request{
					kind:  g.cycle[(step+n)%len(g.cycle)],
					queue: []byte(queue),
					seq:   int32(n),
					items: g.items,
					count: g.Burst,
				})
			}
		}
	}
	return g
}

// opens reports whether the cycle opens reads.
func (g *group) opens() bool {
	for _, kind := range g.cycle {
		if kind.opens() {
			return true
		}
	}
	return false
}

// nextStep returns the step of the cycle after n requests from step on.
func (g *group) nextStep(step, n int) int {
	switch {
	case g.Operation == CloseOpen:
		return 0
	case g.stepwise:
		n = 1
	}
	return (step + n) % len(g.cycle)
}
