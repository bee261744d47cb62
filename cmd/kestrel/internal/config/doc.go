// Package config is the server's configuration: every option once.
//
// Tables describe the options: those in the files schema*.go, listeners.go, tls.go, users.go and
// accounts.go. Flags, the configuration file, the help pages, docs/CONFIGURATION.md and what a
// reload may change are all made from them. [Source.Load] reads a file and flags into a [Config]
// and reports every problem at once, each with its line.
package config
