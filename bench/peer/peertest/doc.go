// Package peertest finds and builds the servers that tests start.
package peertest
