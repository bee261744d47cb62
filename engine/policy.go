package engine

// policy is the settings in force. Queues of the same options share one copy of them, which nobody
// changes: there may be a hundred thousand queues of which nothing is said.
type policy struct {
	Settings
	named map[string]*QueueOptions // copies of those in Queues
}

func newPolicy(s Settings) *policy {
	p := &policy{Settings: s, named: make(map[string]*QueueOptions, len(s.Queues))}
	for name, o := range s.Queues {
		p.named[name] = &o
	}
	return p
}

// shared is Settings.For without a copy.
func (p *policy) shared(name string) *QueueOptions {
	return resolve(name, &p.Default, func(name string) *QueueOptions { return p.named[name] })
}

// resolve returns the options of the queue called name: its own, which named returns unless there
// are none, or those of its parent, or else the default.
func resolve(
	name string, byDefault *QueueOptions, named func(string) *QueueOptions,
) *QueueOptions {
	o := named(name)
	if o == nil {
		o = byDefault
		if parent, child := parentOf(name); child {
			o = resolve(parent, byDefault, named)
		}
	}
	if o.ExpireTo == name {
		own := *o
		own.ExpireTo = ""
		return &own
	}
	return o
}
