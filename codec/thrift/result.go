package thrift

// result reads a result struct, and reports whether it holds what the method returns.
func (c *cursor) result(r *Reply) (ok bool) {
	want := r.Method.resultField()
	ok = want == 0
	for f := c.field(); f != 0; f = c.field() {
		if f != want {
			c.skip(byte(f), 1)
			continue
		}
		ok = true
		switch r.Method {
		case MethodGet, MethodGetAny:
			r.Items = c.itemList()
		case MethodBrowse:
			r.Listed = c.listedList()
		case MethodPeek:
			c.queueInfo(&r.Info)
		case MethodCurrentStatus:
			r.Status = Status(c.i32())
		case MethodGetVersion:
			r.Version = c.string()
		case MethodTouch:
			r.Due = c.i64()
		default:
			r.Count = c.i32()
		}
	}
	return ok
}

// resultField returns the field, of id 0, that a method's result is in, or 0 if it returns nothing.
func (m Method) resultField() uint32 {
	switch m {
	case MethodPut, MethodConfirm, MethodAbort, MethodCurrentStatus, MethodRelease, MethodReject,
		MethodRemove:
		return typeI32
	case MethodTouch:
		return typeI64
	case MethodGet, MethodGetAny, MethodBrowse:
		return typeList
	case MethodPeek:
		return typeStruct
	case MethodGetVersion:
		return typeString
	}
	return 0
}

// Fields of the struct QueueInfo.
const (
	infoHeadField    = 1<<8 | typeString
	infoItemsField   = 2<<8 | typeI64
	infoBytesField   = 3<<8 | typeI64
	infoJournalField = 4<<8 | typeI64
	infoAgeField     = 5<<8 | typeI64
	infoWaitersField = 6<<8 | typeI32
	infoOpenField    = 7<<8 | typeI32
)

func (c *cursor) queueInfo(info *QueueInfo) {
	*info = QueueInfo{}
	for f := c.field(); f != 0; f = c.field() {
		switch f {
		case infoHeadField:
			info.HeadItem = c.string()
			info.HasHead = true
		case infoItemsField:
			info.Items = c.i64()
		case infoBytesField:
			info.Bytes = c.i64()
		case infoJournalField:
			info.JournalBytes = c.i64()
		case infoAgeField:
			info.AgeMillis = c.i64()
		case infoWaitersField:
			info.Waiters = c.i32()
		case infoOpenField:
			info.OpenReads = c.i32()
		default:
			c.skip(byte(f), 2)
		}
	}
}
