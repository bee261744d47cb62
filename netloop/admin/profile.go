package admin

import (
	"errors"
	"net/http"
	"net/http/pprof"
	"runtime"
	runtimepprof "runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/access"
)

const (
	profilePrefix = "/debug/pprof/"
	oldPrefix     = "/pprof/" // of the original

	defaultContention = 10 * time.Second
	maxProfile        = 5 * time.Minute
	contentionRate    = 10 // one of so many
)

// profile answers r if it asks for a profile, and reports whether it did. It is for this machine
// only, and there is nothing unless Options.Profiling is set.
func (s *Server) profile(w http.ResponseWriter, r *http.Request) bool {
	path := r.URL.Path
	if !strings.HasPrefix(path, profilePrefix) && !strings.HasPrefix(path, oldPrefix) {
		return false
	}
	profiling := &command{needs: access.Operate}
	denied := profiling.mayRun(r, false)
	switch err := errors.Join(denied, s.refusal(r)); {
	case !s.opts.Profiling:
		plain(w, http.StatusNotFound, "no such command: profiling is off")
		return true
	case err != nil:
		s.forbid(w, r, "pprof", err)
		return true
	}
	seconds, err := strconv.Atoi(r.FormValue("seconds"))
	if r.FormValue("seconds") != "" && (err != nil || seconds < 1 || seconds > int(maxProfile.Seconds())) {
		plain(w, http.StatusBadRequest, "seconds must be from 1 to 300")
		return true
	}
	r, leave := s.watch(r, func(u *access.User) error { return profiling.allows(u, false) })
	defer leave()
	w = &patientWriter{ResponseWriter: w, s: s} // a profile may take longer than an answer
	switch path {
	case oldPrefix + "heap":
		pprof.Handler("heap").ServeHTTP(w, r)
	case oldPrefix + "profile", profilePrefix + "profile":
		pprof.Profile(w, r)
	case oldPrefix + "contention":
		s.contention(w, r, time.Duration(seconds)*time.Second)
	case profilePrefix + "cmdline":
		pprof.Cmdline(w, r)
	case profilePrefix + "symbol":
		pprof.Symbol(w, r)
	case profilePrefix + "trace":
		pprof.Trace(w, r)
	default:
		if !strings.HasPrefix(path, profilePrefix) {
			plain(w, http.StatusNotFound, "no such command")
			return true
		}
		pprof.Index(w, r)
	}
	return true
}

// contention samples who waits for locks, for a while.
func (s *Server) contention(w http.ResponseWriter, r *http.Request, d time.Duration) {
	if d == 0 {
		d = defaultContention
	}
	s.contending.Lock()
	defer s.contending.Unlock()
	was := runtime.SetMutexProfileFraction(contentionRate)
	defer runtime.SetMutexProfileFraction(was)
	select {
	case <-time.After(d):
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	runtimepprof.Lookup("mutex").WriteTo(w, 0)
}
