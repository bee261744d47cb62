// Package alarm keeps the instants at which something is due in values, and says which comes first. Its [Clock] is the
// one that these are read from.
package alarm
