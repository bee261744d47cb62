// Package backupcmd is the commands `kestrel backup` and `kestrel restore`.
package backupcmd
