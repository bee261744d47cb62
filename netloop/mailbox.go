package netloop

import (
	"sync"
	"sync/atomic"
)

// news is what other goroutines tell a loop about a session; several may come together.
type news uint8

const (
	waitEnded news = 1 << iota // what the session waits for has come, or will not
	writable                   // the peer takes bytes again
)

// mailbox takes news for a loop from other goroutines.
type mailbox struct {
	mu    sync.Mutex
	in    []*session  // with news, each once; guarded by mu
	full  atomic.Bool // in has something; changed under mu
	taken []*session  // owned by the loop
}

// post adds news of s. It is called with a shard of the engine locked.
func (m *mailbox) post(s *session, n news) {
	m.mu.Lock()
	if s.posted == 0 {
		m.in = append(m.in, s)
		m.full.Store(true)
	}
	s.posted |= n
	m.mu.Unlock()
}

// take moves what has been posted to the news of the sessions, and returns those that have any, in
// order. The result is valid until the next call.
func (m *mailbox) take() []*session {
	if m.empty() && len(m.taken) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.taken)
	m.in, m.taken = m.taken[:0], m.in
	m.full.Store(false)
	for _, s := range m.taken {
		s.news, s.posted = s.posted, 0
	}
	return m.taken
}

func (m *mailbox) empty() bool { return !m.full.Load() }
