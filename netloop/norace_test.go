//go:build !race

package netloop

const raceDetector = false
