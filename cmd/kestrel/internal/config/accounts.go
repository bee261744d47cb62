package config

import (
	"math"

	"github.com/kestrelmq/kestrel/netloop"
)

// AccountOptions returns the keys of [accounts.NAME].
func AccountOptions() []Group[netloop.AccountQuota] {
	count := func(key, help string, at func(*netloop.AccountQuota) *int64) Option[netloop.AccountQuota] {
		return Option[netloop.AccountQuota]{Key: key, Live: true, Help: help, At: func(q *netloop.AccountQuota) Value {
			return optional(at(q), 0, countValue[int64]{at(q), 1, math.MaxInt64})
		}}
	}
	size := func(key, help string, at func(*netloop.AccountQuota) *int64) Option[netloop.AccountQuota] {
		return Option[netloop.AccountQuota]{Key: key, Live: true, Help: help, At: func(q *netloop.AccountQuota) Value {
			return optional(at(q), 0, sizeValue{at(q), 1})
		}}
	}
	return []Group[netloop.AccountQuota]{{"Accounts", []Option[netloop.AccountQuota]{
		count("account_queues", "queues that exist in the account", func(q *netloop.AccountQuota) *int64 { return &q.Queues }),
		count("account_items", "messages in all of them, hidden and leased ones as well",
			func(q *netloop.AccountQuota) *int64 { return &q.Items }),
		size("account_bytes", "bytes of these", func(q *netloop.AccountQuota) *int64 { return &q.Bytes }),
		count("account_waits", "requests that wait at once", func(q *netloop.AccountQuota) *int64 { return &q.Waits }),
		count("account_operations", "requests a second", func(q *netloop.AccountQuota) *int64 { return &q.Operations }),
		size("account_traffic", "bytes of requests a second", func(q *netloop.AccountQuota) *int64 { return &q.Traffic }),
	}}}
}
