// Package journalcmd is the command `kestrel journal`: it imports, exports, inspects, verifies and
// repairs the files of a server that is not running.
package journalcmd
