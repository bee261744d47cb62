// Package audit checks that runs hold what the journal relies on.
//
// An [Audit] reads the records of a journal with its own eyes, apart from the replay of a start, and then looks into
// the runs that they name. It knows no engine.
package audit
