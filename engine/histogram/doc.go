// Package histogram counts how often values of any size occurred, within a known relative error and
// in memory that grows only with the spread of the values.
package histogram
