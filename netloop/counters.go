package netloop

// Counters count what clients did since the server started. The names in the comments are those of
// the statistics.
type Counters struct {
	CmdGet          int64 // cmd_get: fetches that were admitted and are not peeks
	CmdPeek         int64 // cmd_peek
	CmdSet          int64 // cmd_set: items
	CmdMonitor      int64 // cmd_monitor
	CmdMonitorGet   int64 // cmd_monitor_get: fetches attempted by monitors
	GetHits         int64 // get_hits: fetches and peeks that ended with an item
	GetMisses       int64 // get_misses: … and without one
	Connections     int64 // total_connections
	BytesRead       int64 // bytes_read
	BytesWritten    int64 // bytes_written
	WaitsDropped    int64 // cmd_get_timeout_dropped, waiters_aborted: waits cut off with their connection
	ReadsDropped    int64 // cmd_get_open_dropped: open reads brought back with their connection
	DeliveredToDead int64 // finished_but_add: items brought back because their waiter was gone
	Paced           int64 // times that a connection was not read for a while, because it was ahead of the disk
	NotProtocol     int64 // sessions closed because what came cannot be a request of their protocol
	Denied          int64 // requests refused because the user has not the right
	OverQuota       OverQuota
	Unidentified    int64  // connections closed because their peers did not say who they are
	RepliesRefused  int64  // replies_refused: fetches refused because replies, or Thrift reads, took too much memory
	Panics          int64  // sessions closed because of a fault of the server
	LongTurns       int64  // long_turns: turns of a loop that took 5 ms or more
	LongestTurn     int64  // longest_turn_usec: µs
	LongestTurnPart string // longest_turn_part: what took longest in it; empty before the first long turn
	LongestTurnWork int64  // longest_turn_work_usec: µs, without the time that the loop waited for a processor
}

func (c *Counters) add(d *Counters) {
	c.CmdGet += d.CmdGet
	c.CmdPeek += d.CmdPeek
	c.CmdSet += d.CmdSet
	c.CmdMonitor += d.CmdMonitor
	c.CmdMonitorGet += d.CmdMonitorGet
	c.GetHits += d.GetHits
	c.GetMisses += d.GetMisses
	c.Connections += d.Connections
	c.BytesRead += d.BytesRead
	c.BytesWritten += d.BytesWritten
	c.WaitsDropped += d.WaitsDropped
	c.ReadsDropped += d.ReadsDropped
	c.DeliveredToDead += d.DeliveredToDead
	c.Paced += d.Paced
	c.NotProtocol += d.NotProtocol
	c.Denied += d.Denied
	c.OverQuota.add(&d.OverQuota)
	c.Unidentified += d.Unidentified
	c.RepliesRefused += d.RepliesRefused
	c.Panics += d.Panics
	c.LongTurns += d.LongTurns
	if d.LongestTurn > c.LongestTurn {
		c.LongestTurn, c.LongestTurnPart = d.LongestTurn, d.LongestTurnPart
	}
	c.LongestTurnWork = max(c.LongestTurnWork, d.LongestTurnWork)
}

// OverQuota counts requests and connections refused because of a quota, by what the quota bounds.
type OverQuota struct {
	Connections, OpenReads, Waits, Operations, Bytes int64 // of a user
	Account                                          int64 // of an account, whatever that bounds
}

// Each calls f for every reason: the key of the user's quota, or account.
func (o *OverQuota) Each(f func(reason string, refused int64)) {
	for _, reason := range [...]string{"connections", "open_reads", "waits", "operations", "bytes", "account"} {
		f(reason, *o.of(reason))
	}
}

// of returns the count of a reason.
func (o *OverQuota) of(reason string) *int64 {
	switch reason {
	case "connections":
		return &o.Connections
	case "open_reads":
		return &o.OpenReads
	case "waits":
		return &o.Waits
	case "operations":
		return &o.Operations
	case "bytes":
		return &o.Bytes
	case "account":
		return &o.Account
	}
	panic("no quota is called " + reason)
}

func (o *OverQuota) add(d *OverQuota) {
	d.Each(func(reason string, refused int64) { *o.of(reason) += refused })
}
