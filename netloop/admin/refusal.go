package admin

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// This file refuses requests that may come from a web page, or from another machine.

var (
	errNotLocal = errors.New("allowed from this machine only")
	errBrowser  = errors.New("not allowed from a web page")
)

// hostError refuses a Host header that is no name of the server. A foreign web page may have had its own name
// resolved to this machine.
type hostError string

func (e hostError) Error() string {
	return fmt.Sprintf("%q is no name of this server: use localhost or an address, or add the name to admin_hosts",
		string(e))
}

// refusal says why the sender of r may not change anything; nil if it may. A sender that may is on this machine, is no
// proxy, and addresses the server by one of its names. It is not a browser that acts for a web page of another site. A
// browser shows that by Sec-Fetch-Site, by Origin, or, if it is very old, by Referer. A request without any of them may
// still come from a page. So the server checks Host in any case, and takes changes by POST alone, which no image or
// link sends.
func (s *Server) refusal(r *http.Request) error {
	if userOf(r) != nil {
		return refusesPage(r) // whose rights were asked before
	}
	if addr, err := netip.ParseAddrPort(r.RemoteAddr); !peerOf(r).unix && (err != nil || !addr.Addr().Unmap().IsLoopback()) {
		return errNotLocal
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return errNotLocal
		}
	}
	if !s.isNamed(r.Host) {
		return hostError(r.Host)
	}
	return refusesPage(r)
}

// refusesPage refuses a request that a browser sends for a web page of another site.
func refusesPage(r *http.Request) error {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	switch {
	case site != "" && site != "none" && site != "same-origin":
		return errBrowser
	case origin != "" && !isOrigin(origin, r.Host):
		return errBrowser
	case origin == "" && site == "" && r.Referer() != "" && !isOrigin(r.Referer(), r.Host):
		return errBrowser
	}
	return nil
}

// mayRead reports whether the server answers a request with this Host header at all. A web page can make its
// own name resolve to this machine, and its browser then sends that name. It cannot send an address or no Host.
func (s *Server) mayRead(host string) bool {
	_, err := netip.ParseAddr(hostName(host))
	return err == nil || host == "" || s.isNamed(host)
}

// isOrigin reports whether a page at address comes from the server that goes by host, on HTTP or behind
// a proxy that speaks HTTPS.
func isOrigin(address, host string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, host)
}

// isNamed reports whether a Host header names the server. Names are localhost, a loopback address, the host that it
// listens on, and Options.Hosts. Its port does not matter: tunnels have their own.
func (s *Server) isNamed(host string) bool {
	name := hostName(host)
	if addr, err := netip.ParseAddr(name); err == nil && addr.Unmap().IsLoopback() {
		return true
	}
	return name != "" && s.names[name]
}

// hostName returns host in lower case, without a port, brackets, or a dot at its end.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// namesOf returns the names that a server with opts goes by, beside loopback addresses.
func namesOf(opts Options) map[string]bool {
	names := map[string]bool{"localhost": true}
	listen, _, _ := net.SplitHostPort(opts.Address) // without a port it could not be listened on
	for _, host := range append([]string{listen}, opts.Hosts...) {
		names[hostName(host)] = true
	}
	for _, wildcard := range []string{"", "0.0.0.0", "::"} { // these name no host
		delete(names, wildcard)
	}
	return names
}
