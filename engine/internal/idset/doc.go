// Package idset is the algebra of sets of item ids, kept as ascending ranges: which items are gone,
// which a run holds, which damage has cost.
package idset
