package engine

import "github.com/kestrelmq/kestrel/engine/internal/accountname"

// An account is a name space of queues, for protocols that serve several tenants. The queues of
// DefaultAccount are those without an account. A queue of any other account has a name with a slash:
// account, slash, queue. No other protocol can send a slash in a name, so none reaches these queues.

// DefaultAccount is the account of the queues that have none in their name.
const DefaultAccount = accountname.Default

// AppendAccountQueue appends the name of a queue of an account. Whether it is a legal name shows at its first use.
func AppendAccountQueue(dst, account, queue []byte) []byte {
	return accountname.Append(dst, account, queue)
}

// CutAccount returns the account and the queue that name stands for.
func CutAccount(name string) (account, queue string) { return accountname.Cut(name) }
