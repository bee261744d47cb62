// Package embedded keeps messages in an engine in this process: the one that a server runs, without a
// server.
//
// [Open] uses a directory, and one process at a time has it. A server may use the same directory before
// and afterwards. What a method has acknowledged survives kill -9, and a power cut too unless
// [Options.Sync] says otherwise. [Memory] is the same without a journal: the messages end with the store.
//
// Times take effect by themselves: a message expires, and shows when its hiding ends, without anybody
// asking. The items of clients of other protocols, which have no id of their own, have the ids that a
// server gives them: @N.ID.
package embedded
