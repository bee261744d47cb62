package thrift

// Fields of the argument structs.
const (
	queueField     = 1<<8 | typeString // all but the last
	itemsField     = 2<<8 | typeList   // put
	expiryField    = 3<<8 | typeI32
	delayField     = 4<<8 | typeI64 // put
	maxItemsField  = 2<<8 | typeI32 // get
	waitField      = 3<<8 | typeI32
	autoAbortField = 4<<8 | typeI32
	idsField       = 2<<8 | typeSet // confirm, abort
	statusField    = 1<<8 | typeI32 // set_status
)

// args reads the argument struct of req.Method, and skips that of an unknown one.
func (c *cursor) args(req *Request) {
	for f := c.field(); f != 0; f = c.field() {
		if !c.arg(f, req) {
			c.skip(byte(f), 1)
		}
	}
}

// arg reads the value of an argument, unless the method has none of this id and type.
func (c *cursor) arg(f uint32, req *Request) bool {
	method := req.Method
	switch {
	case f == queueField && method.hasQueue():
		req.Queue = c.string()
	case f == itemsField && method == MethodPut:
		req.Items = c.strings()
	case f == expiryField && method == MethodPut:
		req.ExpiryMillis = c.i32()
	case f == delayField && method == MethodPut:
		req.DelayMillis = c.i64()
	case f == maxItemsField && method == MethodGet:
		req.MaxItems = c.i32()
	case f == waitField && method == MethodGet:
		req.WaitMillis = c.i32()
	case f == autoAbortField && method == MethodGet:
		req.AutoAbortMillis = c.i32()
	case f == idsField && (method == MethodConfirm || method == MethodAbort):
		req.IDs = c.int64s()
	case f == statusField && method == MethodSetStatus:
		req.Status = Status(c.i32())
	default:
		return false
	}
	return true
}
