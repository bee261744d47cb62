// Package idset is the algebra of sets of item ids: which items are gone, which a run contains, which damage has
// cost. A [Set] is ascending ranges; a [Bitmap] is bits, spans and short lists, for many ids, ragged or not.
package idset
