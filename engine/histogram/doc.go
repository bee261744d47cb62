// Package histogram counts how often values of any size occurred. Its relative error is known, and
// its memory grows only with the spread of the values.
package histogram
