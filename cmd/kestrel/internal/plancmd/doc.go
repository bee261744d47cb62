// Package plancmd is `kestrel plan`: what a load needs of memory, disk and processors, each with its formula.
package plancmd
