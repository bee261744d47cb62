package thrift

// Method is a method of the service. The zero Method is none.
type Method uint8

// The methods, with the fields of [Request] each of them sets.
const (
	MethodPut            Method = iota + 1 // put: Queue, Items, ExpiryMillis, DelayMillis, Keys, OnDuplicate
	MethodGet                              // get: Queue, MaxItems, WaitMillis, AutoAbortMillis
	MethodConfirm                          // confirm: Queue, IDs
	MethodAbort                            // abort: Queue, IDs, DelayMillis
	MethodPeek                             // peek: Queue
	MethodFlushQueue                       // flush_queue: Queue
	MethodFlushAllQueues                   // flush_all_queues
	MethodDeleteQueue                      // delete_queue: Queue
	MethodCurrentStatus                    // current_status
	MethodSetStatus                        // set_status: Status
	MethodGetVersion                       // get_version
	MethodRelease                          // release: Queue, IDs, DelayMillis
	MethodReject                           // reject: Queue, IDs
	MethodTouch                            // touch: Queue, ID, AutoAbortMillis, or Which and ExpiryMillis
	MethodBrowse                           // browse: Queue, From, Limit, Hidden, Which
	MethodRemove                           // remove: Queue, Which
	MethodGetAny                           // get_any: Queues, Weights, WaitMillis, AutoAbortMillis
	MethodAuthenticate                     // authenticate: User, Password

	// MethodUpgrade is Finagle's question whether the server understands request headers. To accept
	// it, answer with AppendUpgrade and decode what follows with Decoder.Upgraded; to decline it,
	// answer with AppendUnknownMethod. It is not part of the service.
	MethodUpgrade
)

// methodNames holds the names on the wire.
var methodNames = [...]string{
	MethodPut:            "put",
	MethodGet:            "get",
	MethodConfirm:        "confirm",
	MethodAbort:          "abort",
	MethodPeek:           "peek",
	MethodFlushQueue:     "flush_queue",
	MethodFlushAllQueues: "flush_all_queues",
	MethodDeleteQueue:    "delete_queue",
	MethodCurrentStatus:  "current_status",
	MethodSetStatus:      "set_status",
	MethodGetVersion:     "get_version",
	MethodRelease:        "release",
	MethodReject:         "reject",
	MethodTouch:          "touch",
	MethodBrowse:         "browse",
	MethodRemove:         "remove",
	MethodGetAny:         "get_any",
	MethodAuthenticate:   "authenticate",
	MethodUpgrade:        "__can__finagle__trace__v3__",
}

// String returns the method's name on the wire, or "unknown".
func (m Method) String() string {
	if m == 0 || int(m) >= len(methodNames) {
		return "unknown"
	}
	return methodNames[m]
}

// hasQueue reports whether a method is about one queue. The name is always its first argument.
func (m Method) hasQueue() bool {
	return MethodPut <= m && m <= MethodFlushQueue || m == MethodDeleteQueue ||
		MethodRelease <= m && m <= MethodRemove
}

// lookupMethod returns the method a name stands for, or 0 for an unknown one.
func lookupMethod(name []byte) Method {
	switch string(name) {
	case "put":
		return MethodPut
	case "get":
		return MethodGet
	case "confirm":
		return MethodConfirm
	case "abort":
		return MethodAbort
	case "peek":
		return MethodPeek
	case "flush_queue":
		return MethodFlushQueue
	case "flush_all_queues":
		return MethodFlushAllQueues
	case "delete_queue":
		return MethodDeleteQueue
	case "current_status":
		return MethodCurrentStatus
	case "set_status":
		return MethodSetStatus
	case "get_version":
		return MethodGetVersion
	case "release":
		return MethodRelease
	case "reject":
		return MethodReject
	case "touch":
		return MethodTouch
	case "browse":
		return MethodBrowse
	case "remove":
		return MethodRemove
	case "get_any":
		return MethodGetAny
	case "authenticate":
		return MethodAuthenticate
	case "__can__finagle__trace__v3__":
		return MethodUpgrade
	}
	return 0
}
