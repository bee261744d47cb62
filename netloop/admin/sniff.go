package admin

import (
	"errors"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/kestrelmq/kestrel/engine/histogram"
	"github.com/kestrelmq/kestrel/netloop"
)

const (
	defaultSniff = 10 * time.Second
	maxSniff     = 5 * time.Minute
	defaultKinds = 1000
	maxKinds     = 10_000
	maxPatterns  = 100
)

// sniffBy are the groupings of what clients ask: each leaves out what does not tell.
var sniffBy = map[string]func(netloop.AskedBy) netloop.AskedBy{
	"all": func(by netloop.AskedBy) netloop.AskedBy { return by },
	"queue": func(by netloop.AskedBy) netloop.AskedBy {
		return netloop.AskedBy{Request: by.Request, Queue: by.Queue}
	},
	"client": func(by netloop.AskedBy) netloop.AskedBy {
		return netloop.AskedBy{Request: by.Request, Client: by.Client, Protocol: by.Protocol}
	},
}

// errSniffing answers a second listener.
var errSniffing = errors.New("another client is listening, and only one can at a time: try again later")

// sniff listens for a while, and answers what clients have asked meanwhile.
func sniff(s *Server, r *http.Request) (any, error) {
	server, err := s.server()
	if err != nil {
		return nil, err
	}
	listen, limit := defaultSniff, defaultKinds
	if text := r.FormValue("seconds"); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if listen = time.Duration(seconds * float64(time.Second)); err != nil || !(seconds > 0) || seconds > maxSniff.Seconds() {
			return nil, badRequestf("seconds: want a number above 0, up to %g, have %q", maxSniff.Seconds(), text)
		}
	}
	if text := r.FormValue("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxKinds {
			return nil, badRequestf("limit: want a number from 1 to %d, have %q", maxKinds, text)
		}
	}
	by, ok := sniffBy[r.FormValue("by")]
	switch {
	case r.FormValue("by") == "":
		by = sniffBy["all"]
	case !ok:
		return nil, badRequestf("by: %q is none of all, queue, client", r.FormValue("by"))
	}
	patterns := r.Form["queue"]
	if len(patterns) > maxPatterns {
		return nil, badRequestf("queue: %d patterns, and %d are allowed", len(patterns), maxPatterns)
	}
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return nil, badRequestf("queue: %q is no pattern", p)
		}
	}
	s.log.Info("an operator listens to the clients", "peer", r.RemoteAddr, "for", listen.String())
	heard, err := server.Sniff(r.Context(), listen, func(queue string) bool { return matchesAny(queue, patterns) })
	if errors.Is(err, netloop.ErrSniffing) {
		return nil, errSniffing
	}
	if err != nil {
		return nil, err
	}
	return describeSniffed(heard.By(by), limit), nil
}

// matchesAny reports whether a queue matches one of patterns, or whether there are none.
func matchesAny(queue string, patterns []string) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, queue); ok {
			return true
		}
	}
	return len(patterns) == 0
}

// describeSniffed returns what clients asked as the answer has it.
func describeSniffed(heard netloop.Sniffed, limit int) object {
	requests := heard.Beyond
	shown := object{}
	for i, a := range heard.Asked {
		requests += a.Requests
		if i >= limit {
			continue
		}
		kind := object{{"request", a.Request}, {"queue", a.Queue}, {"client", a.Client}, {"protocol", a.Protocol},
			{"requests", a.Requests}}
		kind = append(kind, sizes("put", a.Put)...)
		kind = append(kind, sizes("got", a.Got)...)
		shown = append(shown, member{strconv.Itoa(i + 1), kind})
	}
	return object{{"seconds", heard.For.Seconds()}, {"requests", requests}, {"beyond", heard.Beyond},
		{"kinds", int64(len(heard.Asked))}, {"asked", shown}}
}

// sizes returns the figures of the items of one way.
func sizes(way string, c *histogram.Counts) object {
	if c == nil {
		c = new(histogram.Counts)
	}
	figures := object{{way + "_items", c.Total()}, {way + "_bytes", c.Sum()}}
	if c.Total() == 0 {
		return figures
	}
	return append(figures, member{way + "_size_min", c.Min()}, member{way + "_size_p50", c.Quantile(0.5)},
		member{way + "_size_p90", c.Quantile(0.9)}, member{way + "_size_p99", c.Quantile(0.99)}, member{way + "_size_max", c.Max()})
}
