package access

import "fmt"

// Quota is what a user may use, over all of its connections together. Zero is no limit.
type Quota struct {
	Connections int64 // open at once
	OpenReads   int64 // items handed out and not ended, requests that wait for one, and leases
	Waits       int64 // requests that wait for an item
	Operations  int64 // requests a second; further items that one request puts or fetches count as well
	Bytes       int64 // of requests and replies, a second
}

// IsZero reports whether q limits nothing.
func (q Quota) IsZero() bool { return q == Quota{} }

// OverQuota refuses what would exceed a user's quota. It names the quota alone.
type OverQuota struct {
	What string // the key of the quota, such as "waits"
	Most int64
	// Wait is after how many milliseconds there is room again; 0: when something that the user holds has ended.
	Wait int64
}

// Error returns for example "over quota: 1000 operations a second; try again in 12 ms".
func (o *OverQuota) Error() string {
	if o.Wait > 0 {
		return fmt.Sprintf("over quota: %d %s a second; try again in %d ms", o.Most, o.What, o.Wait)
	}
	return fmt.Sprintf("over quota: %d %s at once", o.Most, o.What)
}
