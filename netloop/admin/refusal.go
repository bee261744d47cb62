package admin

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
)

var (
	errNotLocal = errors.New("allowed from this machine only")
	errBrowser  = errors.New("not allowed from a web page")
)

// refusal says why the one who sends r may not change anything; nil if it may: it is on this
// machine, asks for itself and not as a proxy for somebody, and is not a browser that a web page of
// somebody else makes ask. A browser tells by Sec-Fetch-Site, or by Origin if it is old; that a
// page had its own name resolved to this machine shows in Host.
func refusal(r *http.Request) error {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return errNotLocal
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return errNotLocal
		}
	}
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	switch {
	case site == "" && origin == "":
		return nil // no browser, or one that was told by hand a long time ago
	case site != "" && site != "none" && site != "same-origin":
		return errBrowser
	case site == "" && origin != "http://"+r.Host:
		return errBrowser
	case !namesLoopback(r.Host):
		return errBrowser
	}
	return nil
}

// namesLoopback reports whether a Host header is one that only this machine goes by.
func namesLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
