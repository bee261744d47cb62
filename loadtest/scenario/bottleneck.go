package scenario

import "github.com/kestrelmq/kestrel/loadtest/figures"

// Bounds beyond which the generator is taken to have shaped the figures.
const (
	busyShare = 0.95 // of its threads' time, or of the server's processors'
	lagShare  = 0.2  // of the 99th percentile of a latency, which it is part of
	shortRun  = 50e6 // nanoseconds: too short to tell

	unsentShare = 0.01 // of the requests, unsent at the end
)

// noteBottleneck says so if the generator, not the server, limited a phase. Either the threads of a closed loop had no
// time left while the server had some, or the generator could not keep its own schedule.
func (e *Env) noteBottleneck(p *figures.Phase) {
	if p.Wall < shortRun {
		return
	}
	server := -1.0 // share of its processors that the server was busy; -1 if not known
	if s := p.Server; s != nil && s.Processor > 0 {
		server = float64(s.CPU) / float64(p.Wall) / float64(s.Processor)
	}
	switch busy := p.Generator.Busy; {
	case busy < busyShare || server >= busyShare:
	case server >= 0:
		e.note("%s: the generator was the bottleneck: its threads were busy %.0f %% of the time, the "+
			"server's processors %.0f %%; give it more --threads", p.Name, 100*busy, 100*server)
	default:
		e.note("%s: the generator may have been the bottleneck: its threads were busy %.0f %% of the "+
			"time, and how busy the server was is not known; give it more --threads", p.Name, 100*busy)
	}
	if p.Lag == nil {
		return
	}
	for _, op := range p.Ops {
		if op.Name == "put" && op.Latency != nil &&
			float64(p.Lag.P99) > lagShare*float64(op.Latency.P99) {
			e.note("%s: the generator was late: %s at the 99th percentile, of %s that a put took; it "+
				"needs a processor of its own, or more --threads", p.Name, figures.Duration(p.Lag.P99),
				figures.Duration(op.Latency.P99))
		}
	}
	if float64(p.Unsent) > unsentShare*float64(p.Requests()) {
		e.note("%s: %s requests were due and never sent, as all connections were waiting for replies: "+
			"the server does not hold this rate with so many connections", p.Name,
			figures.Thousands(p.Unsent))
	}
}
