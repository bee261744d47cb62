// Package testserver is a queue server for tests, in the process of the test. It keeps items in
// memory, never waits for one, and breaks its promises on request.
package testserver
