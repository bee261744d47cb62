// Package loadcmd is the command `kestrel load`: it turns flags into a scenario, runs it, and prints
// what came of it. The scenarios themselves are in loadtest/scenario.
package loadcmd
