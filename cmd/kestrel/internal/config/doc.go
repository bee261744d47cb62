// Package config is the server's configuration: every option once.
//
// The tables in schema.go, schemaqueue.go and schemaadmin.go describe the options. Flags, the
// configuration file, the help pages, docs/CONFIGURATION.md and what a reload may change are all
// made from them. [Source.Load] reads a file and flags into a [Config] and reports every problem at
// once, each with its line.
package config
