//go:build race

package netloop

// raceDetector says that the tests run under the race detector, which makes pools forget what they
// hold.
const raceDetector = true
