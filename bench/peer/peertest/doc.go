// Package peertest has what tests need that start servers.
package peertest
