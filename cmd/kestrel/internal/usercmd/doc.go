// Package usercmd is `kestrel user`: it makes the hashes of passwords and tokens that a configuration names.
package usercmd
