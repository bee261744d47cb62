package main

// messageControls break what delays, leases, counts and dead letters promise. The model test and the crash
// tests of the engine must notice.
func messageControls() []control {
	const (
		sidelineFile = "engine/sideline.go"
		sayFile      = "engine/sayaside.go"
		leaseFile    = "engine/lease.go"
		backFile     = "engine/giveback.go"
		model        = "./engine TestQueueModel"
		crash        = "./engine TestCrashEveryWrite"
	)
	return []control{
		{breaks: "a lease is not recorded", edits: replaced(leaseFile,
			"		e.changeAside(q, r, entry)\n		return e.sayAside(q, r)\n	}\n	if back",
			"		e.changeAside(q, r, entry)\n		return Ticket{}\n	}\n	if back"), test: model},
		{breaks: "a delay is not recorded", edits: replaced(journalFile,
			"		j.appendChange(d.Queue, d.Item, record.Change{Due: due})", "		_, _ = d, due"), test: model},
		{breaks: "a count is lost at a restart", edits: replaced(replayFile,
			"Token: c.Token, Count: c.Count}", "Token: c.Token}"), test: model},
		{breaks: "a receipt is lost at a restart", edits: replaced(replayFile,
			"Due: c.Due, Token: c.Token,", "Due: c.Due, Token: c.Token + 1,"), test: model},
		{breaks: "delayed items are handed out early", edits: replaced("engine/wake.go",
			"if !ok || due >= at {", "if !ok || due >= at+1000 {"), test: model},
		{breaks: "items that are due again go to the end", edits: replaced(sidelineFile,
			"if !ok || q.aside.ID(r) >= q.headID() {", "if !ok || q.window.Count > 0 {"), test: model},
		{breaks: "a receipt ends the lease of somebody else", edits: replaced(leaseFile,
			"ok && (lapsed || q.aside.Get(r).State == aside.Leased)", "ok"), test: model},
		{breaks: "an item stays when it goes to the dead-letter queue", edits: append(
			replaced(journalFile, "	if from.Queue >= j.first {\n", "	if false {\n"),
			replaced("engine/move.go", "			q.remove(e.journal, r.item.ID)\n", "")...), test: crash},
		{breaks: "a released item counts as delivered", edits: replaced(backFile,
			"	if how.How == Release || count == aside.MaxCount {", "	if count == aside.MaxCount {"), test: model},
		{breaks: "a flush takes leased items", edits: replaced(sayFile,
			"		if entry := all.Get(r); entry.State == aside.Leased {", "		if entry := all.Get(r); entry.State > aside.Ready {"),
			test: model},
		{breaks: "checkpoints tell items aside as gone", edits: replaced("engine/checkpoint.go",
			"			g.reads = append(g.reads, id)\n		case", "		case"), test: model},
		{breaks: "a rewritten item loses its delay", edits: replaced(sayFile,
			"	e.sayAside(q, r)\n}\n\n// clear", "	q.lieIn(r, e.rewriteItem(q, q.aside.Item(r)))\n}\n\n// clear"), test: model},
		{breaks: "an item of a run is leased without its image", edits: replaced(sayFile,
			"	if q.aside.Segment(r) != 0 {\n", "	if true {\n"), test: model},
	}
}
