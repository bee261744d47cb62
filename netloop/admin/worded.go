package admin

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// worded is an answer that is whole before the first byte of it leaves. Making one takes a place of Server.costly, and
// sending it none: so clients that read slowly keep nobody from statistics.
type worded struct {
	http.ResponseWriter             // of the client
	account             func(int64) // takes bytes held, or given back, for the memory limit
	code                int         // 0: none was written
	pieces              [][]byte
	size                int64 // bytes of pieces when the answer was whole, as counted in unread
}

const wordedPiece = 32 << 10 // bytes

// Unwrap is for http.ResponseController.
func (a *worded) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *worded) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
}

// Write implements http.ResponseWriter.
func (a *worded) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	for rest := p; len(rest) > 0; {
		last := len(a.pieces) - 1
		if last < 0 || len(a.pieces[last]) == wordedPiece {
			a.pieces = append(a.pieces, make([]byte, 0, wordedPiece))
			a.account(wordedPiece)
			continue
		}
		n := min(wordedPiece-len(a.pieces[last]), len(rest))
		a.pieces[last] = append(a.pieces[last], rest[:n]...)
		rest = rest[n:]
	}
	return len(p), nil
}

// drop forgets what has not been sent.
func (a *worded) drop() {
	a.account(-wordedPiece * int64(len(a.pieces)))
	a.pieces = nil
}

// send sends an answer that is whole, and gives back its memory as it leaves.
func (u *unread) send(a *worded) error {
	if a.code == 0 {
		return nil // the client has gone
	}
	length := 0
	for _, piece := range a.pieces {
		length += len(piece)
	}
	a.Header().Set("Content-Length", strconv.Itoa(length))
	a.size = wordedPiece * int64(len(a.pieces))
	u.add(a)
	defer u.remove(a)
	a.ResponseWriter.WriteHeader(a.code)
	for len(a.pieces) > 0 {
		if _, err := a.ResponseWriter.Write(a.pieces[0]); err != nil {
			return err
		}
		a.pieces[0] = nil
		a.pieces = a.pieces[1:]
		a.account(-wordedPiece)
	}
	return nil
}

// unread are answers on their way to clients. Together they take limit bytes at most, but there may be maxCostly of any
// size: several programs read statistics at the same time. When another one has no room, those give way that clients have
// been reading for longest.
type unread struct {
	limit func() int64

	mu      sync.Mutex
	answers []*worded // the oldest first; guarded by mu
	bytes   int64     // guarded by mu
}

// add takes an answer in.
func (u *unread) add(a *worded) {
	limit := u.limit()
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.answers) >= maxCostly && u.bytes+a.size > limit {
		oldest := u.answers[0]
		u.take(0)
		http.NewResponseController(oldest).SetWriteDeadline(time.Now()) // so its sender fails, and ends the connection
	}
	u.answers = append(u.answers, a)
	u.bytes += a.size
}

// remove takes an answer out, if it has not given way. When it returns, nobody else uses the answer.
func (u *unread) remove(a *worded) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i := slices.Index(u.answers, a); i >= 0 {
		u.take(i)
	}
}

// take removes the answer at i. The caller holds mu.
func (u *unread) take(i int) {
	u.bytes -= u.answers[i].size
	u.answers = slices.Delete(u.answers, i, i+1)
}
