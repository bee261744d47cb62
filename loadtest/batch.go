package loadtest

// A batch is the bytes of up to Pipeline requests, and of the replies due, in order. It does not
// change once built, except those of a verifying connection, which it rebuilds for each send.
type batch struct {
	requests   []byte
	requestEnd []int  // requestEnd[i] is the offset behind request i
	replies    []byte // examples where not exact
	replyEnd   []int  // replyEnd[i] is the offset behind the reply to request i
	exact      bool   // no other replies are right, except misses
}

// build fills b with count requests of the cycle from step on. value returns the item of a request;
// it is called once for each, in order, and the result is used before the next call.
func (b *batch) build(p protocol, cycle []requestKind, step, count int, queue string,
	value func(requestKind) []byte,
) {
	b.requests, b.requestEnd = b.requests[:0], b.requestEnd[:0]
	b.replies, b.replyEnd = b.replies[:0], b.replyEnd[:0]
	b.exact = true
	for i := range count {
		kind := cycle[(step+i)%len(cycle)]
		r := request{kind: kind, queue: queue, value: value(kind)}
		b.requests = p.appendRequest(b.requests, r)
		b.requestEnd = append(b.requestEnd, len(b.requests))
		exact := false
		b.replies, exact = p.appendReply(b.replies, r)
		b.replyEnd = append(b.replyEnd, len(b.replies))
		b.exact = b.exact && exact
	}
}

// replyDue returns the bytes of the reply due to request i.
func (b *batch) replyDue(i int) []byte {
	start := 0
	if i > 0 {
		start = b.replyEnd[i-1]
	}
	return b.replies[start:b.replyEnd[i]]
}

// plan is what the threads of a run share, immutable: the options, the codec and the batches of
// runs that do not verify.
type plan struct {
	opts     Options
	protocol protocol
	cycle    []requestKind
	value    []byte   // the item, unless verifying
	queues   []string // names
	batches  [][]batch
}

// newPlan builds the batches: batches[queue][step] is a full one that begins at that step of the
// cycle.
func newPlan(opts Options) *plan {
	p := &plan{
		opts:     opts,
		protocol: newProtocol(opts.Protocol, opts.Wait),
		cycle:    opts.Operation.cycle(),
		value:    appendValue(nil, opts.ItemSize, 0, 0),
	}
	for i := range min(opts.Queues, opts.Connections) {
		p.queues = append(p.queues, opts.queueName(i))
	}
	if opts.Verify {
		return p
	}
	item := func(requestKind) []byte { return p.value }
	p.batches = make([][]batch, len(p.queues))
	for i, queue := range p.queues {
		p.batches[i] = make([]batch, len(p.cycle))
		for step := range p.cycle {
			p.batches[i][step].build(p.protocol, p.cycle, step, opts.Pipeline, queue, item)
		}
	}
	return p
}
