package main

// messageControls break what delays, leases, counts and dead letters promise. The model test and the crash
// tests of the engine must notice.
func messageControls() []control {
	const (
		asideFile    = "engine/aside.go"
		queueFile    = "engine/queue.go"
		leaseFile    = "engine/lease.go"
		extraFile    = "engine/putextra.go"
		model        = "./engine TestQueueModel"
		crash        = "./engine TestCrashEveryWrite"
		hideFile     = "engine/hide.go"
		clearingFile = "engine/clearing.go"
		hiddenCrash  = "./engine TestHiddenCrash"
		marksFile    = "engine/gone.go"
		recordFile   = "engine/recordrun.go"
		marksCrash   = "./engine TestMarksCrash"
		findKeysFile = "engine/internal/runs/keys.go"
		keysTest     = "./engine TestKeys"
		revived      = "		r.e.setAside(live, &it, seg, entryOf(c))\n"
	)
	unrecorded := replaced(leaseFile,
		"		e.changeAside(q, r, entry)\n		return e.sayAside(q, r)\n	}\n	if back",
		"		e.changeAside(q, r, entry)\n		return Ticket{}\n	}\n	if back")
	early := replaced(backFile, "if !ok || due >= at {", "if !ok || due >= at+1000 {")
	nowhere := replaced("engine/move.go", "	e.add(sh, now, &put, now, from, new(Stored))\n	return true",
		"	if r.dead == 0 {\n		e.add(sh, now, &put, now, from, new(Stored))\n	}\n	return true")
	return []control{
		{breaks: "a lease is not recorded", edits: unrecorded, test: model},
		{breaks: "a lease is not recorded", edits: unrecorded, experiment: "rough", cycles: 20},
		{breaks: "a dead letter arrives nowhere", edits: nowhere, test: model},
		{breaks: "a dead letter arrives nowhere", edits: nowhere, experiment: "rough", cycles: 20},
		{breaks: "a delay is not recorded", edits: replaced(journalFile,
			"			j.appendChange(d.Queue, d.Item, c)\n", "			_ = d\n"), test: model},
		{breaks: "a count is lost at a restart", edits: replaced(reviveFile,
			revived, "		entry := entryOf(c)\n		entry.Count = 0\n		r.e.setAside(live, &it, seg, entry)\n"), test: model},
		{breaks: "a receipt is lost at a restart", edits: replaced(reviveFile,
			revived, "		entry := entryOf(c)\n		entry.Token++\n		r.e.setAside(live, &it, seg, entry)\n"), test: model},
		{breaks: "delayed items are handed out early", edits: early, test: model},
		{breaks: "delayed items are handed out early", edits: early, experiment: "rough", cycles: 20},
		{breaks: "items that are due again go to the end", edits: replaced(asideFile,
			"if !ok || q.aside.ID(r) >= q.headID() {", "if !ok || q.window.Count > 0 {"), test: model},
		{breaks: "receipts are given again", edits: replaced(asideFile,
			"	for s := q.itemsAside(); ; {\n		token := q.shard.tokens.Next()\n",
			"	for s, token := q.itemsAside(), uint64(1); ; token++ {\n"), test: "./engine TestReceiptsAreNew"},
		{breaks: "what is due stays hidden", edits: replaced(backFile,
			"if !ok || due >= at {", "if !ok || due >= at-2000 {"), test: model},
		{breaks: "a queue expires although its items are leased", edits: replaced("engine/maintain.go",
			"q.items() > 0 || q.leased() > 0 || ", "q.items() > 0 || "), test: "./engine TestQueueExpiry"},
		{breaks: "a receipt ends the lease of somebody else", edits: replaced(leaseFile,
			"ok && (lapsed || q.aside.Get(r).State == aside.Leased)", "ok"), test: model},
		{breaks: "files of marks, and thinned runs, are not synced", edits: replaced("engine/internal/runs/dir.go",
			"		err = d.Sync(w, d.InDoubt(born))\n", ""), test: marksCrash},
		{breaks: "a marks file replaces another, and not all that this had", edits: replaced(marksFile,
			"		e.recordMarks(q, others)\n	}\n	e.spool", "		e.recordMarks(q, new(idset.Bitmap))\n	}\n	e.spool"), test: "./engine TestMarks"},
		{breaks: "a start does not read what is gone in a marks file", edits: replaced(reviveFile,
			"		q.Gone.AddAll(&m.IDs)\n", ""), test: "./engine TestMarks"},
		{breaks: "a checkpoint leaves the marks file out", edits: replaced("engine/checkpoint.go",
			"m != nil && !t.yield(t.e.recordMarksAgain(t.q, m)) {", "m != nil && false {"), test: "./engine TestMarks"},
		{breaks: "a checkpoint names a run that is about to go", edits: replaced("engine/checkpoint.go",
			"			r.unrecord() // no", "			// no"), test: "./engine TestMarksBesideReclaim"},
		{breaks: "a marks file replaces one that has more", edits: replaced(marksFile,
			"b.marks != t.file || ", ""), test: "./engine TestMarksBesideEntering"},
		{breaks: "what has left memory again counts as read back", edits: replaced("engine/internal/hidden/set.go",
			"	s.offRead(r, id)\n	r.disk", "	r.disk"), test: "./engine TestUnloadBehindRead"},
		{breaks: "what is to be read back is asked for once only", edits: replaced("engine/hide.go",
			"	h.queuedRead, h.reading = false, ", "	h.reading = "), test: "./engine TestReadBackBehindFlush"},
		{breaks: "a thinned run is not recorded", edits: replaced(recordFile,
			"		s.e.recordSpilled(q, fresh)\n", ""), test: marksCrash},
		{breaks: "an item stays when it goes to the dead-letter queue", edits: append(
			replaced(journalFile, "	if from.Queue >= j.first {\n", "	if false {\n"),
			replaced("engine/move.go", "			q.remove(e.journal, r.item.ID, len(r.item.Data))\n", "")...), test: crash},
		{breaks: "a released item counts as delivered", edits: replaced(backFile,
			"	if how.How == Release || count == aside.MaxCount {", "	if count == aside.MaxCount {"), test: model},
		{breaks: "a flush takes leased items", edits: replaced("engine/gone.go",
			"q.aside.State(r) == aside.Leased)", "false)"), test: model},
		{breaks: "a flush does not hear of what comes back", edits: replaced(asideFile,
			"	q.noteTaken(q.aside.ID(r), entry.State == aside.Leased)\n", ""), test: "./engine TestFlushInPieces"},
		{breaks: "checkpoints tell items aside as gone", edits: replaced("engine/gone.go",
			"		func(r aside.Ref) { w.Live.Add(q.aside.ID(r)) }, &q", "		func(r aside.Ref) {}, &q"), test: model},
		{breaks: "a rewritten item loses its delay", edits: replaced(queueFile,
			"	e.sayAside(q, r)\n}\n\n// say", "	it := q.aside.Item(r)\n	q.lieIn(r, e.rewriteItem(q, &it))\n}\n\n// say"), test: model},
		{breaks: "an item of a run is leased without its image", edits: replaced(queueFile,
			"	if q.aside.Segment(r) != 0 && !inRun {\n", "	if true || inRun {\n"), test: model},
		{breaks: "a hidden run is recorded before it is synced", edits: replaced(hideFile,
			"	return w, out, s.dir.Sync(w, s.dir.InDoubt(made))", "	_ = made\n	return w, out, nil"), test: hiddenCrash},
		{breaks: "the file of a hidden run goes before the journal says that nothing lives in it", edits: replaced(hideFile,
			"	if err := s.e.journal.Sync(s.e.journal.End()); err != nil {\n		return err\n	}\n	var err error\n	for i, f := range spent",
			"	var err error\n	for i, f := range spent"), test: "./engine TestSpentGoesBehindRecord"},
		{breaks: "the file of a hidden run goes before what lives in it is written again", edits: replaced(hideFile,
			"	return s.writeHidden(job)",
			"	for _, r := range job.old {\n		s.dir.Remove(r.Path)\n	}\n	return s.writeHidden(job)"), test: "./engine TestHideAgainRecordsFirst"},
		{breaks: "the file of a hidden run is spent before the journal names the next", edits: replaced(hideFile,
			"		if q.inJournal() {\n			s.e.recordHidden(q, job.run)\n		}\n", ""+
				"		for _, old := range job.old {\n			s.spend(old.File)\n		}\n		if q.inJournal() {\n"+
				"			s.e.recordHidden(q, job.run)\n		}\n		job.old = nil\n"),
			test: "./engine TestHideAgainRecordsFirst"},
		{breaks: "what is gone comes back from a hidden run", edits: append(replaced("engine/queue.go",
			"		q.leaveRun(id, size)\n", ""), replaced("engine/internal/replay/hidden.go",
			"range gone.Within(idset.Between(first, last))", "range new(idset.Bitmap).Within(idset.Between(first, last))")...), test: model},
		{breaks: "an item stays in its hidden run when it is leased", edits: replaced(queueFile,
			"len(q.aside.hidden.Runs()) > 0 && q.leaveRun(q.aside.ID(r), len(q.aside.Item(r).Data))", "q.livesInRun(q.aside.ID(r)) != nil"),
			test: model},
		{breaks: "a checkpoint leaves hidden runs out", edits: replaced("engine/checkpoint.go",
			"		more = more && yield(e.recordHiddenAgain(q, r))", "		_ = r"), test: model},
		{breaks: "checkpoints tell hidden items as gone", edits: replaced("engine/gone.go",
			"		w.Hidden = append(w.Hidden, w.runs[0].DiskIDs().Clone())\n", ""), test: model},
		{breaks: "a flush leaves hidden items", edits: replaced(clearingFile,
			"		a.hidden.Retain(&s.IDs)\n", ""), test: model},
		{breaks: "the removal of an item in the middle is lost", edits: replaced(lookFile,
			"	t := q.remove(e.journal, at.it.ID, size)\n	q.leaves", "	_, t := size, Ticket{}\n	q.leaves"), test: model},
		{breaks: "an overwrite leaves two copies", edits: replaced(extraFile,
			"		if at, ok := q.ofKey(x.Key, now); ok {\n			to.Item", "		if at, ok := q.ofKey(x.Key, now); ok && at.where != inWindow {\n			to.Item"),
			test: model},
		{breaks: "the removal of an overwritten item stands before that", edits: replaced(extraFile,
			"	q.removal.Rewritten(it.ID)\n", ""), test: "./engine TestRemovalOfOverwritten"},
		{breaks: "an overwrite is not recorded", edits: replaced(journalFile,
			"		j.active = record.AppendKeep(j.active, d.Queue, it)\n		j.appendChange", "		j.appendChange"), test: model},
		{breaks: "what was removed on disk comes again", edits: replaced("engine/fill.go",
			"		if b.gone.Has(it.ID) {\n", "		if b.gone.Has(it.ID) && !b.unsized.Has(it.ID) {\n"), test: model},
		{breaks: "keys of items on disk are not known after a restart", edits: replaced(findKeysFile,
			"				k.loader.Add(e)\n", "				_ = e\n"), test: model},
		{breaks: "a start takes keys of items that are gone", edits: replaced(findKeysFile,
			"			case !f.OnDisk(e.ID):\n", "			case false:\n"), test: keysTest},
		{breaks: "the keys of a backlog's run are not written", edits: replaced("engine/internal/runs/batch.go",
			"	b.keys.AddTo(w, b.coder)\n", ""), test: keysTest},
		{breaks: "a hidden run lacks the keys of its items", edits: replaced("engine/internal/hidden/batch.go",
			"	keys.AddTo(w, c)\n", ""), test: hiddenCrash},
		{breaks: "hashes with another seed are taken", edits: replaced(findKeysFile,
			"			if k.loader != nil || len(k.early) > 0 {\n", "			if false {\n"), test: keysTest},
		{breaks: "a damaged frame of keys has its queue withheld", edits: replaced(findKeysFile,
			"errors.Is(err, errOtherSeed), IsDamage(err):", "errors.Is(err, errOtherSeed):"), test: keysTest},
		{breaks: "a repair counts a frame of keys as lost items", edits: replaced("engine/internal/repair/run.go",
			"	if !g.Batches || g.Tag != nil && keyindex.IsFrame(*g.Tag) {\n", "	if !g.Batches {\n"), test: keysTest},
		{breaks: "a change of many items misses what comes back meanwhile", edits: replaced("engine/scan.go",
			"	w.gather()\n	w.meet()", "	if w.count == 0 {\n		w.gather()\n	}\n	w.meet()"), test: "./engine TestScanMeets"},
		{breaks: "several queues serve one wait", edits: replaced("engine/waiter.go",
			"	if !a.won.CompareAndSwap(false, true) {\n", "	if !a.won.CompareAndSwap(false, true) && false {\n"),
			test: model},
		{breaks: "a start takes the item that was overwritten", edits: replaced("engine/internal/replay/queue.go",
			"		if _, again := q.Kept[it.ID]; again {", "		if false {"), test: model},
	}
}

// wireControls break what the protocols say of keys, single items and several queues. The transcripts must notice, and
// the tests of what they do not show.
func wireControls() []control {
	const (
		itemFile    = "netloop/thriftitem.go"
		severalFile = "netloop/several.go"
		transcripts = "./netloop TestTranscripts"
	)
	return []control{
		{breaks: "a read of get_any has no id", edits: replaced(itemFile,
			"		one.ID, one.Deliveries = int64(s.delivery.Receipt), int32(s.delivery.Deliveries)",
			"		one.Deliveries = int32(s.delivery.Deliveries)"), test: transcripts},
		{breaks: "a fetch from several queues needs no right to the first", edits: replaced(severalFile,
			"		if err := s.denied(need{right, onQueue}, s.wait.several.sources[i].name); err != nil {",
			"		if err := s.denied(need{right, onQueue}, s.wait.several.sources[i].name); err != nil && i > 0 {"),
			test: "./netloop TestRightsThrift"},
		{breaks: "a bad key lets the items before it in", edits: replaced("netloop/thriftput.go",
			"		if err := checkThriftKey(key); err != nil {", "		if err := checkThriftKey(key); err != nil && false {"),
			test: transcripts},
		{breaks: "a fetch whose item was overwritten finds the queue empty", edits: replaced("netloop/monitor.go",
			"return !ref.IsZero() && !s.noRoom }", "return false }"), test: "./netloop TestLostItem"},
		{breaks: "a list goes on before it has read a hidden item", edits: replaced("engine/scan.go",
			"		if !w.takeExtras(w.page.LastID + 1) {", "		if w.most < w.page.LastID {"), test: "./engine TestListBeforeRemovedEnd"},
		{breaks: "weights are ignored", edits: replaced(severalFile, "		at, drawn := i, draw(total)",
			"		at, drawn := i, 0*draw(total)"), test: "./netloop TestWeights"},
		{breaks: "a list is longer than clients take", edits: replaced(itemFile,
			"	if l.count > 0 && len(l.reply.B)+need > maxThriftReply || need", "	if need"),
			test: "./netloop TestThriftBrowseIsBounded"},
		{breaks: "a key with a slash closes the connection", edits: replaced("codec/memcache/options.go",
			"		if !known && len(req.ItemKey) > 0 { // it stands behind a slash in the key", "		if false {"),
			test: transcripts},
	}
}

// momentControls break what counts at one moment only: between two pieces of work, or before a record is durable. The
// simulation meets such a moment too rarely, so a test makes each.
func momentControls() []control {
	lookAgain := replaced("engine/look.go", "		return e.ticketSoFar(q), err\n	} else if", "		return t, err\n	} else if")
	return []control{
		{breaks: "a read that leaves its list keeps a segment that its run made needless", edits: replaced("engine/read.go",
			"	r.letGo()\n	l.Remove(&r.link)", "	l.Remove(&r.link)"), test: "./engine TestLetGoBesideReturns"},
		{breaks: "a read lets go of the image that its count needs", edits: replaced("engine/read.go",
			"	if o := r.q.letting; o != nil && !r.changed && ", "	if o := r.q.letting; o != nil && "), test: "./engine TestLetGoLeavesCounted"},
		{breaks: "a new expiry of an open item is left to its run", edits: replaced(lookFile,
			"		at.read.changed = true // a run may have it as it was\n", "		at.read.lieIn(0)\n"),
			test: "./engine TestChangeOfOpenItem"},
		{breaks: "a dead-letter queue gets a name that the journal cannot hold", edits: replaced("engine/shard.go",
			"	if err := ValidateName(name); err != nil { // that", "	if err := ValidateName(name); err == ErrClosed { // that"),
			test: "./engine TestDeadLetterLongName"},
		{breaks: "a checkpoint beside a reload leaves out what that has recorded", edits: replaced("engine/checkpoint.go",
			"	if !q.crossing || q.spilled {", "	if !q.crossing {"), test: "./engine TestTrimBesideReload"},
		{breaks: "an item gets into a file of delayed items twice", edits: replaced("engine/hide.go",
			"			s.hideBatch.Has(it.ID) {", "			false {"), test: "./engine TestHideBesideChanges"},
		{breaks: "the file of a run goes although an item of it is on its way", edits: replaced("engine/checkpoint.go",
			"		k.stay.Add(r.item.ID)\n", ""), test: "./engine TestForgoLeavesMoving"},
		{breaks: "an item that has arrived elsewhere is recorded again", edits: replaced("engine/checkpoint.go",
			"	if r.state == readMoving && k.has(r) {", "	if false {"), test: "./engine TestKeepBesideMove"},
		{breaks: "a queue enters the journal without what is on its way", edits: replaced("engine/reload.go",
			"	if !last.IsZero() {\n		e.awaitMoves(q, last)", "	if false {\n		e.awaitMoves(q, last)"),
			test: "./engine TestReloadWaitsForMoves"},
		{breaks: "a dead letter that comes back keeps its place in a journal that its queue leaves", edits: replaced(
			"engine/giveback.go", "			r.lieIn(0) // letGo", "			// letGo"), test: "./engine TestDeadLetterBesideLetGo"},
		{breaks: "a segment is dropped before what takes its place is durable", edits: replaced("engine/trim.go",
			"	if err := e.journal.Sync(unneeding); err != nil {\n		return err\n	}\n", "	_ = unneeding\n"),
			test: "./engine TestTrimSyncs"},
		{breaks: "a journal that may count goes before its name is gone for good", edits: replaced("engine/internal/journal/dirs.go",
			"	if err := d.fs.SyncDir(d.doubtful); err != nil {\n		return err\n	}\n", ""),
			test: "./engine/internal/journal TestRetractIsDurable"},
		{breaks: "what was removed between two chunks is removed again", edits: replaced("engine/spill.go",
			"			b.gone.AddRange(idset.Between(w.LastID+1, c.FirstID-1))\n", ""), test: "./engine TestRemovedChunk"},
		{breaks: "a reject is acknowledged before its item has arrived", edits: replaced("engine/move.go",
			"	e.awaitMoves(q, ref)\n	return", "	_ = ref\n	return"), test: "./engine TestRejectWaitsForMoves"},
		{breaks: "that a key exists is said before its item is durable", edits: replaced("engine/putextra.go",
			"		s.Ticket = s.Ticket.Merge(q.ticketAt(q.puts.newest)) // who", "		// who"),
			test: "./engine TestKeyExistsIsDurable"},
		{breaks: "that an item is gone is said before that is durable", edits: lookAgain, test: "./engine TestRemoveAgainIsDurable"},
		{breaks: "that an item is gone is said before that is durable", edits: lookAgain,
			test: "./client/backend/embedded TestDeleteAgainIsDurable"},
		{breaks: "a failed commit forgets what a later reply waits for", edits: replaced("netloop/tick.go",
			"	if err != nil && s.state != waiting || l", "	if err != nil || l"), test: "./netloop TestBurrowRetractAhead"},
	}
}
