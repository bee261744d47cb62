// Package accountname spells the names of queues that belong to accounts: account, slash, queue.
package accountname
