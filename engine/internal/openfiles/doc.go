// Package openfiles shares out the file descriptors that an engine may have open. Every use has a minimum, with which
// it works, and a size beyond which more is of no use.
package openfiles
