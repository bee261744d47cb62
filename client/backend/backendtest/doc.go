// Package backendtest has the suite that every back end must pass. It lives on nothing but the interface,
// so it runs over compositions and proxies as well, on a real clock or a fake one.
package backendtest
