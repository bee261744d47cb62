package burrow

// Method is the method of a request. The zero Method is one that no path offers.
type Method uint8

// The methods that paths offer, and the one that browsers ask with before they send others.
const (
	Get Method = iota + 1
	Put
	Post
	Delete
	Options
)

// methodNames holds the spelling of the wire, which is case-sensitive.
var methodNames = [...]string{Get: "GET", Put: "PUT", Post: "POST", Delete: "DELETE", Options: "OPTIONS"}

// String returns the method as the wire has it, or "unknown".
func (m Method) String() string {
	if m == 0 || int(m) >= len(methodNames) {
		return "unknown"
	}
	return methodNames[m]
}

// LookupMethod returns the method of that name, or 0.
func LookupMethod(name []byte) Method {
	for m := Get; m <= Options; m++ {
		if string(name) == methodNames[m] {
			return m
		}
	}
	return 0
}

// Op is what a [Request] asks for. The zero Op is none.
type Op uint8

// The operations, with the fields of [Request] each of them sets besides those of its path.
const (
	OpVersions       Op = iota + 1 // GET /
	OpListAccounts                 // GET /v1.0: Limit, Marker, Detail
	OpDeleteAccounts               // DELETE /v1.0: Limit, Marker, Detail
	OpListQueues                   // GET of an account: Limit, Marker, Detail
	OpDeleteQueues                 // DELETE of an account: Limit, Marker, Detail
	OpGetMessages                  // GET of a queue: Limit, Marker, MatchHidden, Detail, Wait
	OpUpdateMessages               // POST to a queue: those of GET, TTL, Hide
	OpDeleteMessages               // DELETE of a queue: those of GET
	OpGetMessage                   // GET of a message: Detail
	OpPutMessage                   // PUT of a message: TTL, Hide
	OpUpdateMessage                // POST to a message: TTL, Hide, Detail
	OpDeleteMessage                // DELETE of a message: Detail

	// Those of version 1.1.
	OpOpenAPI     // GET of its description
	OpAccounts    // Limit, Marker
	OpQueues      // Limit, Marker
	OpStats       // of a queue
	OpDeleteQueue // with all of its messages
	OpBrowse      // Limit, Marker, MatchHidden
	OpPutBatch    // a form: see DecodeBatch
	OpLook        // at one message
	OpRemove      // one message
	OpReceive     // lease messages; a form: see DecodeReceive
	OpSettle      // several receipts; a form: see DecodeSettle
	OpExtend      // Receipt; a form: see DecodeExtend
	OpAcknowledge // Receipt
	OpRedrive     // a form: see DecodeRedrive
)

// opNames are those of Burrow's interface for back ends.
var opNames = [...]string{
	OpVersions:       "versions",
	OpListAccounts:   "get_accounts",
	OpDeleteAccounts: "delete_accounts",
	OpListQueues:     "get_queues",
	OpDeleteQueues:   "delete_queues",
	OpGetMessages:    "get_messages",
	OpUpdateMessages: "update_messages",
	OpDeleteMessages: "delete_messages",
	OpGetMessage:     "get_message",
	OpPutMessage:     "create_message",
	OpUpdateMessage:  "update_message",
	OpDeleteMessage:  "delete_message",
	OpOpenAPI:        "openapi",
	OpAccounts:       "accounts",
	OpQueues:         "queues",
	OpStats:          "stats",
	OpDeleteQueue:    "delete_queue",
	OpBrowse:         "browse",
	OpPutBatch:       "put_batch",
	OpLook:           "look",
	OpRemove:         "remove",
	OpReceive:        "receive",
	OpSettle:         "settle",
	OpExtend:         "extend",
	OpAcknowledge:    "acknowledge",
	OpRedrive:        "redrive",
}

// String returns the name of the operation, or "unknown".
func (op Op) String() string {
	if op == 0 || int(op) >= len(opNames) {
		return "unknown"
	}
	return opNames[op]
}

// Changes says whether the operation may change what is stored.
func (op Op) Changes() bool {
	switch op {
	case OpDeleteAccounts, OpDeleteQueues, OpUpdateMessages, OpDeleteMessages, OpPutMessage,
		OpUpdateMessage, OpDeleteMessage, OpDeleteQueue, OpPutBatch, OpRemove, OpReceive, OpSettle, OpExtend,
		OpAcknowledge, OpRedrive:
		return true
	}
	return false
}

// A route is one kind of path: its operations by method, and what a 405 says of them.
type route struct {
	ops   [Options]Op // by method
	allow string
}

// routes has the route of paths with that many components.
var routes = [...]route{
	0: {ops: [Options]Op{Get: OpVersions}, allow: "GET"},
	1: {ops: [Options]Op{Get: OpListAccounts, Delete: OpDeleteAccounts}, allow: "GET, DELETE"},
	2: {ops: [Options]Op{Get: OpListQueues, Delete: OpDeleteQueues}, allow: "GET, DELETE"},
	3: {
		ops:   [Options]Op{Get: OpGetMessages, Post: OpUpdateMessages, Delete: OpDeleteMessages},
		allow: "GET, POST, DELETE",
	},
	4: {
		ops: [Options]Op{Get: OpGetMessage, Put: OpPutMessage, Post: OpUpdateMessage,
			Delete: OpDeleteMessage},
		allow: "GET, PUT, POST, DELETE",
	},
}

// Detail is how much of each object a reply shows.
type Detail uint8

// The details, from none to everything.
const (
	DetailNone       Detail = iota + 1 // nothing: a reply without body
	DetailID                           // the id
	DetailAttributes                   // id, ttl and hide
	DetailBody                         // the body
	DetailAll                          // id, ttl, hide and body; of accounts and queues the id
)

// lookupDetail returns the detail of that name, or 0. Metadata is the name that attributes had before
// the first release.
func lookupDetail(name []byte) Detail {
	switch string(name) {
	case "none":
		return DetailNone
	case "id":
		return DetailID
	case "attributes", "metadata":
		return DetailAttributes
	case "body":
		return DetailBody
	case "all":
		return DetailAll
	}
	return 0
}

// defaultDetail returns the detail of a request that names none.
func (op Op) defaultDetail() Detail {
	switch op {
	case OpListAccounts, OpListQueues:
		return DetailID
	case OpGetMessages, OpGetMessage:
		return DetailAll
	}
	return DetailNone
}
