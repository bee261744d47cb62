package thrift

// Fields of the argument structs.
const (
	queueField     = 1<<8 | typeString // all but the last
	itemsField     = 2<<8 | typeList   // put
	expiryField    = 3<<8 | typeI32
	delayField     = 4<<8 | typeI64 // put
	laterField     = 3<<8 | typeI64 // abort, release
	maxItemsField  = 2<<8 | typeI32 // get
	waitField      = 3<<8 | typeI32
	autoAbortField = 4<<8 | typeI32
	idsField       = 2<<8 | typeSet // confirm, abort, release, reject
	idField        = 2<<8 | typeI64 // touch
	touchField     = 3<<8 | typeI32
	touchItemField = 4<<8 | typeI64
	touchKeyField  = 5<<8 | typeString
	newExpiryField = 6<<8 | typeI32
	keysField      = 5<<8 | typeList // put
	duplicateField = 6<<8 | typeI32
	fromField      = 2<<8 | typeI64 // browse
	limitField     = 3<<8 | typeI32
	hiddenField    = 4<<8 | typeBool
	lookItemField  = 5<<8 | typeI64
	lookKeyField   = 6<<8 | typeString
	itemField      = 2<<8 | typeI64 // remove
	keyField       = 3<<8 | typeString
	queuesField    = 1<<8 | typeList // get_any
	anyWaitField   = 2<<8 | typeI32
	anyAbortField  = 3<<8 | typeI32
	weightsField   = 4<<8 | typeList
	statusField    = 1<<8 | typeI32    // set_status
	userField      = 1<<8 | typeString // authenticate
	passwordField  = 2<<8 | typeString
)

// args reads the argument struct of req.Method, and skips that of an unknown one.
func (c *cursor) args(req *Request) {
	if req.Method == MethodAbort {
		req.DelayMillis = NoDelay
	}
	for f := c.field(); f != 0; f = c.field() {
		if !c.arg(f, req) {
			c.skip(byte(f), 1)
		}
	}
}

// arg reads the value of an argument, unless the method has none of this id and type.
func (c *cursor) arg(f uint32, req *Request) bool {
	if f == queueField && req.Method.hasQueue() {
		req.Queue = c.string()
		return true
	}
	switch req.Method {
	case MethodPut:
		return c.argOfPut(f, req)
	case MethodGet, MethodGetAny:
		return c.argOfGet(f, req)
	case MethodConfirm, MethodAbort, MethodRelease, MethodReject:
		return c.argOfEnd(f, req)
	case MethodTouch:
		return c.argOfTouch(f, req)
	case MethodBrowse, MethodRemove:
		return c.argOfBrowse(f, req)
	}
	switch {
	case f == userField && req.Method == MethodAuthenticate:
		req.User = c.string()
	case f == passwordField && req.Method == MethodAuthenticate:
		req.Password = c.string()
	case f == statusField && req.Method == MethodSetStatus:
		req.Status = Status(c.i32())
	default:
		return false
	}
	return true
}

// argOfPut is arg of a put.
func (c *cursor) argOfPut(f uint32, req *Request) bool {
	switch f {
	case itemsField:
		req.Items = c.strings()
	case expiryField:
		req.ExpiryMillis = c.i32()
	case delayField:
		req.DelayMillis = c.i64()
	case keysField:
		req.Keys = c.strings()
	case duplicateField:
		req.OnDuplicate = c.i32()
	default:
		return false
	}
	return true
}

// argOfGet is arg of a get from one queue or from any of several.
func (c *cursor) argOfGet(f uint32, req *Request) bool {
	one := req.Method == MethodGet
	switch {
	case f == maxItemsField && one:
		req.MaxItems = c.i32()
	case f == waitField && one, f == anyWaitField && !one:
		req.WaitMillis = c.i32()
	case f == autoAbortField && one, f == anyAbortField && !one:
		req.AutoAbortMillis = c.i32()
	case f == queuesField && !one:
		req.Queues = c.strings()
	case f == weightsField && !one:
		req.Weights = c.int32s()
	default:
		return false
	}
	return true
}

// argOfEnd is arg of what ends open reads.
func (c *cursor) argOfEnd(f uint32, req *Request) bool {
	switch {
	case f == idsField:
		req.IDs = c.int64s()
	case f == laterField && (req.Method == MethodAbort || req.Method == MethodRelease):
		req.DelayMillis = c.i64()
	default:
		return false
	}
	return true
}

// argOfTouch is arg of a touch, of a read or of an item.
func (c *cursor) argOfTouch(f uint32, req *Request) bool {
	switch f {
	case idField:
		req.ID = c.i64()
	case touchField:
		req.AutoAbortMillis = c.i32()
	case touchItemField:
		req.Which.ID = c.i64()
	case touchKeyField:
		req.Which.Key = c.string()
	case newExpiryField:
		req.ExpiryMillis = c.i32()
	default:
		return false
	}
	return true
}

// argOfBrowse is arg of a browse or a remove.
func (c *cursor) argOfBrowse(f uint32, req *Request) bool {
	browse := req.Method == MethodBrowse
	switch {
	case f == fromField && browse:
		req.From = c.i64()
	case f == limitField && browse:
		req.Limit = c.i32()
	case f == hiddenField && browse:
		req.Hidden = c.byte() != 0
	case f == lookItemField && browse, f == itemField && !browse:
		req.Which.ID = c.i64()
	case f == lookKeyField && browse, f == keyField && !browse:
		req.Which.Key = c.string()
	default:
		return false
	}
	return true
}
