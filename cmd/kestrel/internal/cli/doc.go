// Package cli has what every kestrel command shares: exit codes, failures, help pages, and words.
//
// A command returns an error. [Run] prints it and chooses the exit code: a [Failure] brings its own
// code, every other error is a mistake in the command line.
package cli
