package client

// ServeExample runs a server for an example.
var ServeExample = serveExample
