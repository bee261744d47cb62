package thrift

import "encoding/binary"

// The reply functions append one whole frame each. They do not ask whether the reply fits the
// method.

// AppendCount appends the reply to put, confirm, abort, release, reject and remove: a number of items or ids.
func AppendCount(dst []byte, call Call, count int32) []byte {
	start := len(dst)
	dst = appendI32Field(beginReply(dst, call), 0, count)
	return endStruct(dst, start)
}

// AppendDeadline appends the reply to touch: when the read comes back by itself, or the item expires, in milliseconds
// since 1970. It is 0 if the read is not open, or the item is not there.
func AppendDeadline(dst []byte, call Call, deadlineMillis int64) []byte {
	start := len(dst)
	dst = appendI64Field(beginReply(dst, call), 0, deadlineMillis)
	return endStruct(dst, start)
}

// AppendVoid appends the reply to flush_queue, flush_all_queues, delete_queue and set_status.
func AppendVoid(dst []byte, call Call) []byte {
	start := len(dst)
	return endStruct(beginReply(dst, call), start)
}

// AppendStatus appends the reply to current_status.
func AppendStatus(dst []byte, call Call, status Status) []byte {
	return AppendCount(dst, call, int32(status))
}

// AppendVersion appends the reply to get_version.
func AppendVersion(dst []byte, call Call, version string) []byte {
	start := len(dst)
	dst = appendStringField(beginReply(dst, call), 0, version)
	return endStruct(dst, start)
}

// AppendUpgrade appends the reply that accepts a MethodUpgrade. From the next frame on the
// connection is upgraded: see Decoder.Upgraded. The sequence id of this reply is always 0.
func AppendUpgrade(dst []byte, call Call) []byte {
	call.Seq = 0
	return AppendVoid(dst, call)
}

// QueueInfo is what peek returns about a queue.
type QueueInfo struct {
	HasHead      bool   // there is an item
	HeadItem     []byte // its bytes, if HasHead
	Items        int64  // items in the queue, without open reads
	Bytes        int64  // their bytes
	JournalBytes int64  // size of the journal
	AgeMillis    int64  // milliseconds the item fetched last had waited
	Waiters      int32  // clients that wait for an item
	OpenReads    int32  // reads that are neither confirmed nor aborted
}

// AppendQueueInfo appends the reply to peek.
func AppendQueueInfo(dst []byte, call Call, info *QueueInfo) []byte {
	start := len(dst)
	dst = appendField(beginReply(dst, call), 0, typeStruct)
	if info.HasHead {
		dst = appendStringField(dst, 1, info.HeadItem)
	}
	return endQueueInfo(dst, start, info)
}

// AppendQueueInfoAround is AppendQueueInfo for a head item of size bytes that is sent from where it lies. It appends
// what comes in front of the item, and returns what comes behind it. It does not look at info.HeadItem.
func AppendQueueInfoAround(dst []byte, call Call, info *QueueInfo, size int) (front []byte, behind string) {
	start := len(dst)
	dst = appendStringField(appendField(beginReply(dst, call), 0, typeStruct), 1, "")
	at := len(dst)
	binary.BigEndian.PutUint32(dst[at-4:], uint32(size))
	dst = endQueueInfo(dst, start, info)
	length := binary.BigEndian.Uint32(dst[start:])
	binary.BigEndian.PutUint32(dst[start:], length+uint32(size))
	return dst[:at], string(dst[at:])
}

// endQueueInfo appends the fields behind the head item, and ends the reply that starts at offset start.
func endQueueInfo(dst []byte, start int, info *QueueInfo) []byte {
	dst = appendI64Field(dst, 2, info.Items)
	dst = appendI64Field(dst, 3, info.Bytes)
	dst = appendI64Field(dst, 4, info.JournalBytes)
	dst = appendI64Field(dst, 5, info.AgeMillis)
	dst = appendI32Field(dst, 6, info.Waiters)
	dst = appendI32Field(dst, 7, info.OpenReads)
	dst = append(dst, typeStop)
	return endStruct(dst, start)
}

// beginReply appends the start of a reply, up to its result struct.
func beginReply(dst []byte, call Call) []byte {
	dst = beginFrame(dst)
	if call.Upgraded {
		dst = append(dst, typeStop) // an empty ResponseHeader
	}
	return appendMessage(dst, messageReply, call.Method.String(), call.Seq)
}

// endStruct ends a struct and with it the frame that starts at offset start.
func endStruct(dst []byte, start int) []byte {
	return endFrame(append(dst, typeStop), start)
}
