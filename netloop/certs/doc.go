// Package certs makes TLS configurations of servers from files, and new ones when the files change.
package certs
