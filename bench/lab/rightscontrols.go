package main

// rightsControls let clients do what they may not.
func rightsControls() []control {
	behind := replaced("netloop/memcache.go", "	if s.id.user != nil && (!joins || s.id.usage != nil) &&",
		"	if s.id.user != nil && (len(g.puts) == 0 || s.id.usage != nil) &&")
	uncounted := replaced("netloop/memcache.go", "	if s.id.user != nil && (!joins || s.id.usage != nil) &&", "	if s.id.user != nil && !joins &&")
	skipped := replaced("netloop/memcache.go", "	if s.id.user != nil && err == nil && s.memcacheDenied(req, n) {",
		"	if s.id.user != nil && err == nil && req.Op != memcache.OpDelete && s.memcacheDenied(req, n) {")
	job := replaced("netloop/largeput.go", "	return p.may.denied()", "	return nil")
	folded := replaced("access/right.go", "		case p < len(pattern) && pattern[p] == name[n]:",
		"		case p < len(pattern) && pattern[p]|0x20 == name[n]|0x20:")
	flushAll := replaced("netloop/memcacheuser.go", "	memcache.OpFlushAll:        {access.Manage, everywhere},",
		"	memcache.OpFlushAll:        {access.Manage, somewhere},")
	early := replaced("netloop/text.go", "	case s.id.unknown && req.Op != text.OpAuth && req.Op != text.OpQuit:",
		"	case s.id.unknown && req.Op != text.OpAuth && req.Op != text.OpQuit && req.Op != text.OpStatus:")
	names := replaced("netloop/memcachestats.go", "				q.Children = seenBy(user, q.Children)\n", "")
	scrape := replaced("netloop/admin/prometheus.go", "		if !c.user.Sees(q.Name) || c.wanted != nil", "		if c.wanted != nil")
	unslowed := replaced("access/checker.go", "	return min(firstDelay<<min(failures-c.opts.FreeFailures, 16), most)", "	return 0")
	revoked := replaced("netloop/identity.go", "	if i.names != nil && users.WithCertificate(i.names) != now {", "	if false {")
	unbounded := replaced("netloop/quota.go", "	case q.Operations > 0 && u.operations.wait(now) > 0:",
		"	case q.Operations < 0 && u.operations.wait(now) > 0:")
	hoarded := replaced("netloop/quota.go", "	if limit := s.id.user.Quota.OpenReads; limit > 0 {",
		"	if limit := s.id.user.Quota.OpenReads; limit < 0 {")
	unreserved := replaced("netloop/quota.go", "		keep = min(1, s.wait.reserved)", "		keep = 0")
	origin := replaced("netloop/memcachereply.go", "	if len(m.Origin) > 0 && !user.Sees(string(m.Origin)) {",
		"	if len(m.Origin) > 0 && user != nil && len(user.Name) == 0 {")
	alias := replaced("netloop/identify.go", "	if err == nil || s.id.user == nil {", "	if err == nil || len(name) > 0 {")
	redriven := replaced("netloop/burrowredrive.go", "	case !d.user.May(access.Put, to):", "	case d.user != nil && len(to) == 0:")
	whence := replaced("netloop/burrowredrive.go", "	if err != nil && d.hides(to) {", "	if err != nil && len(to) == 0 {")
	patient := replaced("netloop/life.go", "	if s.id.unknown {", "	if s.id.unknown && s.proto == nil {")
	lenient := replaced("netloop/identify.go", "s.id.strikes >= maxStrikes {", "s.id.strikes >= 1000*maxStrikes {")
	compared := replaced("access/checker.go", "		if len(password) <= MaxPassword && h.matches(password)",
		"		if u != nil && len(password) <= MaxPassword && h.matches(password)")
	cheaper := replaced("access/checker.go", "	hashes = slices.Clone(us.decoys)\n	hashes[own] = u.Password\n	return hashes, own",
		"	return []Hash{u.Password}, 0")
	return []control{
		{breaks: "the password of nobody is compared with nothing", edits: compared, experiment: "timing", cycles: 1},
		{breaks: "a cheap hash is compared sooner than that of nobody", edits: cheaper, test: "./access TestSameWork"},
		{breaks: "a quota of operations has no effect", edits: unbounded, test: "./netloop TestQuotaOperations"},
		{breaks: "a quota of open reads has no effect", edits: hoarded, test: "./netloop TestQuotaOpenReads"},
		{breaks: "what waits for the disk is no open read", edits: unreserved, test: "./netloop TestQuotaBehindTheDisk"},
		{breaks: "dead letters name hidden queues", edits: origin, test: "./netloop TestHiddenEverywhere"},
		{breaks: "refusals of an alias name its destinations", edits: alias, test: "./netloop TestHiddenEverywhere"},
		{breaks: "a redrive puts without a right", edits: redriven, test: "./netloop TestRightsBurrow"},
		{breaks: "a refused redrive names where a dead letter came from", edits: whence, test: "./netloop TestRedriveRights"},
		{breaks: "a silent client stays", edits: patient, test: "./netloop TestUnknownGarbage"},
		{breaks: "a client may guess for ever", edits: lenient, test: "./netloop TestUnknownPeers"},
		{breaks: "a certificate that is nobody's any more stays", edits: revoked, test: "./netloop TestTLSCertificates"},
		{breaks: "a command is run without a right", edits: skipped, test: "./netloop TestRightsMemcache"},
		{breaks: "a SET behind one that is allowed needs no right", edits: behind, test: "./netloop TestGatheredRights"},
		{breaks: "a quota counts the first of several SETs", edits: uncounted, test: "./netloop TestQuotaOperations"},
		{breaks: "a job puts without a right", edits: job, test: "./netloop TestRightsThrift"},
		{breaks: "patterns ignore case", edits: folded, test: "./access TestRights"},
		{breaks: "patterns ignore case", edits: folded, test: "./netloop TestRightsMemcache"},
		{breaks: "FLUSH_ALL needs a right on one queue", edits: flushAll, test: "./netloop TestRightsMemcache"},
		{breaks: "a command is run before its client is known", edits: early, test: "./netloop TestRightsText"},
		{breaks: "statistics name hidden queues", edits: names, test: "./netloop TestHiddenNames"},
		{breaks: "metrics name hidden queues", edits: scrape, test: "./netloop/admin TestHiddenNames"},
		{breaks: "guesses are not slowed down", edits: unslowed, test: "./access TestFailuresSlowDown"},
		{breaks: "hashes of several lanes count as one", edits: replaced("access/checker.go",
			"processors := min(lanesOf(hashes), cap(c.slots))", "processors := 1"), test: "./access TestChecksAtOnce"},
		{breaks: "a stranger keeps a buffer of others", edits: replaced("netloop/buffers.go",
			" || s.id.unknown && cap(s.in) > maxUnknown", ""), test: "./netloop TestUnknownBytes"},
		{breaks: "every refusal is logged", edits: replaced("netloop/logpace.go",
			"if last != 0 && now-last <", "if last < 0 && now-last <"), test: "./netloop TestRefusalLines"},
		{breaks: "handshakes that nobody ends keep others out", edits: replaced("netloop/handshakes.go",
			"maxHandshakes = 1024", "maxHandshakes = 10240"), experiment: "hostile", only: "half-open handshakes", cycles: 1},
	}
}
