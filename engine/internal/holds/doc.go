// Package holds says what holds the oldest segments of a journal, and how many bytes may be rewritten so that
// they can go. It knows numbers of segments and sizes, no queue and no file.
//
// [Marks] say in which segments the items of a queue lie, [Pins] in which those of reads lie. A [Use] adds up
// what rewriting all of that would take, and plans which segments to let go of. A [Debt] bounds the price
// (R1). Nothing here locks.
package holds
