// Package backends opens any back end of messages by its URL:
//
//	b, err := backends.Open("hash://10.0.0.5:8080|10.0.0.6:8080,10.0.0.7:8080", backends.Options{})
//
//	http://host:8080            a server that speaks Burrow's protocol; https:// is encrypted
//	http://host:8080/acme       the same; calls that name no account are about acme
//	kestrel:///var/lib/queues   an engine in this process, with its directory
//	memory://                   an engine that keeps nothing
//	sqlite:///var/lib/q.db      a file for SQLite
//	failover://a:8080,b:8080    the first that answers, and the first again when it does
//	hash://a:8080,b:8080        each queue at one of them; a|b in place of one is a failover
//
// The parts of failover and hash are addresses of servers, or URLs of any kind but these two.
//
// It links all of them, SQL and the engine too. A program that speaks to servers only calls
// overhttp.Open, and is some megabytes smaller.
package backends
