// Package scalaconfig translates the original Kestrel's configuration, a Scala program, to TOML.
//
// It reads assignments, QueueBuilder and AliasBuilder, sizes and durations, and evaluates nothing.
// Format: Kestrel 2.4's config/*.scala and net.lag.kestrel.config.KestrelConfig.
package scalaconfig
