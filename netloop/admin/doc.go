// Package admin answers operators over HTTP: statistics, health, and a few commands that control the
// server. docs/ADMIN.md specifies its requests and answers.
//
// # Life
//
// New opens the port and Start answers on it, before there is an engine. Commands that need an engine say how far the
// replay has come. Attach brings the server in. Close comes last: while the server drains, it still says so.
//
// # Who may ask
//
// Everybody who reaches the port may read. A command that changes something, stops the process or costs it more than a
// scrape works from this machine only. A web page in a browser on it cannot send one either; see refusal. Changes are
// POSTs.
//
// # Limits
//
// The server bounds connections, the time to send a request, its size, and the time to take an answer. It also bounds
// the number of expensive answers made at once, and the memory of those that clients read; see limits.go and worded.go. A
// client can therefore slow down other operators, but neither the event loops nor memory.
package admin
