package admin

import (
	"errors"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/netloop"
)

// errSeeLog stands for an error that may name queues, for a user that may not see all of them.
var errSeeLog = errors.New("the log says why")

// always is the changes of a command that changes something whatever its parameters are.
func always(*http.Request) bool { return true }

// isPost is the changes of a command that only reads when the method is GET.
func isPost(r *http.Request) bool { return r.Method == http.MethodPost }

// setsLevel is the changes of logging.
func setsLevel(r *http.Request) bool { return r.FormValue("level") != "" }

// done is what a command without a result answers.
const done = "ok"

func ping(*Server, *http.Request) (any, error) { return "pong", nil }

func serverInfo(s *Server, _ *http.Request) (any, error) {
	b := s.opts.Build
	return object{
		{"name", b.Name},
		{"version", b.Version},
		{"build", b.Go},
		{"build_revision", b.Revision},
		{"build_branch_name", ""},
		{"build_last_few_commits", []string{}},
		{"start_time", s.started.UTC().Format(time.RFC1123)},
		{"uptime", time.Since(s.started).Milliseconds()},
	}, nil
}

// shutdownDelay is the time between the request and the stop of the process. The answer leaves in it.
const shutdownDelay = 100 * time.Millisecond

func shutdown(s *Server, r *http.Request) (any, error) {
	if s.opts.RequestShutdown == nil {
		return nil, errNotOffered
	}
	s.log.Info("shutdown requested", "peer", r.RemoteAddr)
	time.AfterFunc(shutdownDelay, s.opts.RequestShutdown)
	return done, nil
}

// reload applies the configuration before it answers, so that the answer has the problems.
func reload(s *Server, r *http.Request) (any, error) {
	if s.opts.Reload == nil {
		return nil, errNotOffered
	}
	if _, err := s.server(); err != nil {
		return nil, err
	}
	err := s.opts.Reload()
	switch {
	case err != nil && !userOf(r).Everywhere(access.Stats):
		return nil, errSeeLog // it may name queues
	case err != nil:
		return nil, err
	}
	return done, nil
}

func collectGarbage(*Server, *http.Request) (any, error) {
	runtime.GC()
	return done, nil
}

const maxStacks = 8 << 20 // bytes

// threads answers what every goroutine is doing, by its header as the runtime prints it.
func threads(*Server, *http.Request) (any, error) {
	buf := make([]byte, maxStacks)
	buf = buf[:runtime.Stack(buf, true)]
	var all object
	for stack := range strings.SplitSeq(strings.TrimSpace(string(buf)), "\n\n") {
		head, frames, _ := strings.Cut(stack, "\n")
		all = append(all, member{strings.TrimSuffix(head, ":"), strings.Split(frames, "\n")})
	}
	return object{{"threads", all}}, nil
}

// loggerName is the one logger that there is.
const loggerName = "kestrel"

const loggingHelp = "There is one logger, " + loggerName + ". Its level is %LEVEL. To change it until the " +
	"next reload: POST /logging?level=LEVEL, where LEVEL is debug, info, warn or error; name=REGEX may " +
	"say which logger is meant."

func logging(s *Server, r *http.Request) (any, error) {
	level, name := r.FormValue("level"), r.FormValue("name")
	if level == "" {
		now := strings.ToLower(s.opts.LogLevel.Level().String())
		return strings.ReplaceAll(loggingHelp, "%LEVEL", now), nil
	}
	pattern, err := regexp.Compile(name)
	if err != nil {
		return nil, badRequestf("name: %w", err)
	}
	if name != "" && !pattern.MatchString(loggerName) {
		return nil, badRequestf("no logger matches %q; there is only %q", name, loggerName)
	}
	if err := s.opts.LogLevel.UnmarshalText([]byte(level)); err != nil {
		return nil, badRequestf("level %q is none of debug, info, warn, error", level)
	}
	s.log.Warn("log level changed", "level", s.opts.LogLevel.Level().String(), "peer", r.RemoteAddr)
	return "level of " + loggerName + " is " + strings.ToLower(s.opts.LogLevel.Level().String()), nil
}

// status answers the server's status, or with POST changes it to what the parameter `to` says.
func status(s *Server, r *http.Request) (any, error) {
	server, err := s.server()
	if err != nil {
		return nil, err
	}
	if r.Method == http.MethodPost {
		to, err := netloop.ParseStatus(r.FormValue("to"))
		if err != nil {
			return nil, badRequestf("to: %q is not a status: use Up, WriteAvoid, ReadOnly or Quiescent", r.FormValue("to"))
		}
		switch err := server.SetStatus(to); {
		case errors.Is(err, netloop.ErrForbiddenStatus):
			return nil, badRequestf("to: the status %s cannot be set: only a stop makes a server Down, and then it stays so", to)
		case err != nil:
			return nil, badRequest{err}
		}
		s.log.Info("status asked for", "status", to.String(), "peer", r.RemoteAddr,
			"now", server.Status().String())
	}
	answer := object{
		{"status", server.Status().String()},
		{"enforced", server.EnforcedStatus().String()},
	}
	if p := s.published.Load(); p != nil {
		answer = append(answer, member{"published", object{
			{"status", p.status.String()},
			{"since", p.at.UTC().Format(time.RFC3339Nano)},
		}})
	}
	return answer, nil
}
