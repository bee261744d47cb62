// Package certs makes TLS configurations of servers from files, and of what the files hold later.
package certs
