package client

// ServeExample runs a server for an example, and DialExample a client of one.
var (
	ServeExample = serveExample
	DialExample  = dialExample
)
