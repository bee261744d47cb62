// Package backendtest has the suite that every back end must pass. It uses the interface alone, so it also runs over
// compositions and proxies, on a real clock or a fake one.
package backendtest
