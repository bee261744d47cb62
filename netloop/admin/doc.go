// Package admin answers operators over HTTP: statistics, health, and the few things a server is
// told from outside. docs/ADMIN.md specifies what is asked and answered.
//
// # Life
//
// New opens the port and Start answers on it, before there is an engine: the commands that need one
// say how far the replay has come. Attach brings the server in, and Close comes last, so that a
// server that drains still tells so.
//
// # Who may ask
//
// Reading is for everybody who reaches the port. What changes something, stops the process or costs
// it more than a scrape is for this machine only, and not for a web page that a browser on it
// shows; see refusal. Changes are POSTs.
//
// # Limits
//
// Connections, the time to send a request, the size of a request, the time to take an answer, and
// the number of expensive answers made at once are bounded; see limits.go. A client can therefore
// slow down other operators, but neither the event loops nor memory.
package admin
