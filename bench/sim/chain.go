package main

import "time"

// A chain is a script of about a hundred short processes on one directory. Each leaves a little behind that the next
// one goes on with: what only many restarts in a row can bring about does not come about in fifteen.

const (
	chainOneIn  = 200 // seeds
	chainLength = 100 // processes, about
	// chainClients and chainOps are how many clients a process of a chain has, and requests each of them, at most.
	chainClients, chainOps = 3, 12
)

// isChain reports whether the script of a seed is a chain. That is no draw: other seeds keep their scripts.
func isChain(seed uint64) bool { return seed%chainOneIn == chainOneIn/2 }

// chain makes up the processes of a chain: as others are, but shorter.
func (g *generator) chain() {
	for range chainLength - 10 + g.IntN(21) {
		p := g.phase()
		p.Length = min(p.Length, pick(g, 5*time.Millisecond, 50*time.Millisecond, 500*time.Millisecond))
		p.Clients = p.Clients[:min(len(p.Clients), chainClients)]
		for i := range p.Clients {
			c := &p.Clients[i]
			c.Ops = c.Ops[:min(len(c.Ops), 1+g.IntN(chainOps))]
		}
		g.s.Phases = append(g.s.Phases, p)
	}
}
