package netloop

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// Sniffed is what clients asked while an operator listened.
type Sniffed struct {
	For    time.Duration // that was listened
	Asked  []Asked       // those asked most first
	Beyond int64         // requests that there was no room to count apart
}

// ErrSniffing is returned while somebody listens already.
var ErrSniffing = errors.New("netloop: somebody else is listening to the clients, and only one can at a time: try again later")

// Sniff counts what clients ask of the queues that match picks, for so long or until ctx ends, and with it its
// error. Counting stops with the server, too. It uses a few MB at most, however many clients and queues there are, and
// while nobody listens a request costs one branch.
func (s *Server) Sniff(ctx context.Context, d time.Duration, match func(queue string) bool) (Sniffed, error) {
	if !s.sniffing.TryLock() {
		return Sniffed{}, ErrSniffing
	}
	defer s.sniffing.Unlock()
	end := func(into *sniffSum) (err error) {
		for _, l := range s.loops {
			e := s.onLoop(context.WithoutCancel(ctx), l, func() {
				into.add(l.sniff)
				l.sniff = nil
			})
			err = errors.Join(err, e)
		}
		return err
	}
	sum := sniffSum{by: make(map[AskedBy]*Asked)}
	began := time.Now()
	for _, l := range s.loops {
		if err := s.onLoop(ctx, l, func() { l.sniff = newSniffer(match) }); err != nil {
			return Sniffed{}, errors.Join(err, end(&sum))
		}
	}
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
		return Sniffed{}, errors.Join(ctx.Err(), end(&sum))
	case <-s.stopping:
	}
	took := time.Since(began)
	if err := end(&sum); err != nil {
		return Sniffed{}, err
	}
	return Sniffed{For: took, Asked: sum.sorted(), Beyond: sum.beyond}, nil
}

// sniffSum adds up what loops have counted.
type sniffSum struct {
	by     map[AskedBy]*Asked
	beyond int64
}

func (m *sniffSum) add(n *sniffer) {
	if n == nil {
		return
	}
	m.beyond += n.beyond.Requests
	for _, q := range n.queues {
		for by, a := range q.asked {
			if other := m.by[by]; other == nil {
				m.by[by] = a
			} else {
				other.merge(a)
			}
		}
	}
}

// merge adds what b counted.
func (a *Asked) merge(b *Asked) {
	a.Requests += b.Requests
	if a.Put == nil {
		a.Put = b.Put
	} else if b.Put != nil {
		a.Put.Add(b.Put)
	}
	if a.Got == nil {
		a.Got = b.Got
	} else if b.Got != nil {
		a.Got.Add(b.Got)
	}
}

func (m *sniffSum) sorted() []Asked {
	list := make([]Asked, 0, len(m.by))
	for _, a := range m.by {
		list = append(list, *a)
	}
	slices.SortFunc(list, func(a, b Asked) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Queue, b.Queue),
			strings.Compare(a.Request, b.Request), strings.Compare(a.Client, b.Client), strings.Compare(a.Protocol, b.Protocol))
	})
	return list
}

// By returns s with what differs in Client alone, or in anything but Client, added up: keep says which of the four
// stay. It changes the histograms of s.
func (s Sniffed) By(keep func(AskedBy) AskedBy) Sniffed {
	sum := sniffSum{by: make(map[AskedBy]*Asked)}
	for i := range s.Asked {
		a := s.Asked[i]
		a.AskedBy = keep(a.AskedBy)
		if other := sum.by[a.AskedBy]; other != nil {
			other.merge(&a)
		} else {
			sum.by[a.AskedBy] = &a
		}
	}
	s.Asked = sum.sorted()
	return s
}
