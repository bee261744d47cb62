// Package trim plans what is rewritten at the end of a journal so that its oldest segments can go. It knows numbers of
// segments and sizes, no queue and no file.
//
// [ItemSegments] say in which segments the items of a queue lie, [Pins] in which those of reads lie. A [Use] adds up
// what rewriting all of that would take, and makes a [Plan]: which segments to let go of. A [Debt] bounds the price
// (R1). Nothing here locks.
package trim
