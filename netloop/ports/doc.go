// Package ports opens the addresses that a server listens on, and turns away peers that a port does not
// admit. It reads and writes nothing on a connection.
package ports
