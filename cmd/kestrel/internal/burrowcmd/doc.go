// Package burrowcmd has the commands that are about messages: `kestrel burrow`, a client with the verbs of
// Burrow's own command line, and `kestrel proxy`, a server of Burrow's protocol in front of any back end.
package burrowcmd
