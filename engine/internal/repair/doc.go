// Package repair says what a damaged data directory has lost, and saves the rest.
//
// [Examine] reads the journal and every run that it names, and changes nothing. The [Damage] that it returns says
// where bytes are damaged, which items are lost, and what the queues would be. [Damage.Repair] saves what is left. It
// writes whole items of damaged runs to new runs, and the queues to a new journal, which replaces the old one in one
// step.
//
// The package knows the bytes of journals and runs. The meaning of records is the engine's, whose [Replay] reads the
// journal here as it does at a start. On the way the replay reports to a [Salvage] which ids it sees. A jump from one
// side of a gap to the other is a loss.
package repair
