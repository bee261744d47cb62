// Package audit checks that runs hold what the journal relies on.
//
// An [Audit] reads the records of a journal by itself, apart from the replay of a start. Then it looks into the runs
// that they name. It knows no engine.
package audit
