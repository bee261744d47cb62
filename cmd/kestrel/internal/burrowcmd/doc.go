// Package burrowcmd has the commands that are about messages. `kestrel burrow` is a client with the verbs of Burrow's
// own command line. `kestrel proxy` is a server of Burrow's protocol in front of any back end.
package burrowcmd
