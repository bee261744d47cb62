package oldjournal

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Op says what a record does to its queue: a FIFO of items, and a table of open reads by xid. It is
// the first byte of a record.
type Op byte

// The fields behind the opcode follow each other without padding, integers little-endian in two's
// complement. "data" is what its name says, to the end of the record; size counts the bytes behind
// itself.
const (
	// OpAdd appends an item: size 4, expiry 4 in seconds since the Unix epoch, data. Only the
	// ancestors before 0.8 wrote it.
	OpAdd Op = 0
	// OpRemove drops the head, if there is one.
	OpRemove Op = 1
	// OpAddX appends an item: size 4, time added 8, expiry 8, data. Times are ms since the Unix
	// epoch, and an expiry of 0 means never.
	OpAddX Op = 2
	// OpRemoveTentative opens a read of the head under the xid after the last one, skipping 0 and
	// those in use. From 0.8 to 1.x.
	OpRemoveTentative Op = 3
	// OpSaveXID sets the last xid: xid 4. From 0.8 to 1.x.
	OpSaveXID Op = 4
	// OpUnremove moves the item of an open read to the head: xid 4.
	OpUnremove Op = 5
	// OpConfirmRemove ends an open read, whose item is gone: xid 4.
	OpConfirmRemove Op = 6
	// OpAddXID is OpAddX of an item that was an open read: xid 4, then as OpAddX. From 0.8 to 1.x.
	OpAddXID Op = 7
	// OpContinue ends an open read and appends an item: xid 4, then as OpAddX.
	OpContinue Op = 8
	// OpRemoveTentativeXID opens a read of the head under xid, and sets the last xid: xid 4. From
	// 2.0.
	OpRemoveTentativeXID Op = 9

	lastOp = OpRemoveTentativeXID
)

// Bytes of a record in front of its data.
const (
	addHeader   = 1 + 4 + addTimes
	addXHeader  = 1 + 4 + addXTimes
	addXIDSizes = 1 + 4 + 4 + addXTimes

	addTimes  = 4  // counted by size
	addXTimes = 16 // counted by size
)

// maxHeader is how many bytes tell everything about a record but its data.
const maxHeader = addXIDSizes

func (op Op) hasXID() bool {
	switch op {
	case OpSaveXID, OpUnremove, OpConfirmRemove, OpAddXID, OpContinue, OpRemoveTentativeXID:
		return true
	}
	return false
}

func (op Op) hasItem() bool {
	return op == OpAdd || op == OpAddX || op == OpAddXID || op == OpContinue
}

// header is how many bytes of a record stand in front of its data, and times how many of them its
// size counts.
func (op Op) header() (header, times int) {
	switch op {
	case OpAdd:
		return addHeader, addTimes
	case OpAddX:
		return addXHeader, addXTimes
	case OpAddXID, OpContinue:
		return addXIDSizes, addXTimes
	case OpRemove, OpRemoveTentative:
		return 1, 0
	}
	return 1 + 4, 0
}

// Record is one record. Fields that its opcode does not have are zero.
type Record struct {
	Op     Op
	XID    int32
	Added  int64  // ms since the Unix epoch; zero also for OpAdd, which does not say
	Expiry int64  // ms since the Unix epoch, of OpAdd in whole seconds; zero: never
	Data   []byte // of the item
}

// Decode parses the record at the start of src and returns how many bytes it takes. Data aliases
// src. It returns ErrIncomplete and 0 if src is a proper prefix of a record, and a *RecordError if
// it is not the start of one. It does not allocate on success.
func Decode(src []byte, rec *Record) (n int, err error) {
	size, err := decodeHeader(src, rec)
	if err != nil {
		return 0, err
	}
	header, _ := rec.Op.header()
	if size > int64(len(src)-header) {
		return 0, ErrIncomplete
	}
	n = header + int(size)
	if rec.Op.hasItem() {
		rec.Data = src[header:n:n]
	}
	return n, nil
}

// decodeHeader parses what stands in front of the data of the record at the start of src, and
// returns the size of the data.
func decodeHeader(src []byte, rec *Record) (size int64, err error) {
	*rec = Record{}
	if len(src) == 0 {
		return 0, ErrIncomplete
	}
	rec.Op = Op(src[0])
	if rec.Op > lastOp {
		return 0, &RecordError{rec.Op, "unknown opcode"}
	}
	header, times := rec.Op.header()
	fields := src[1:min(len(src), header)]
	if rec.Op.hasXID() && len(fields) >= 4 {
		rec.XID = int32(binary.LittleEndian.Uint32(fields))
		fields = fields[4:]
	}
	if rec.Op.hasItem() && len(fields) >= 4 {
		counted := int32(binary.LittleEndian.Uint32(fields))
		if int64(counted) < int64(times) {
			return 0, &RecordError{rec.Op, fmt.Sprintf("size %d is less than %d", counted, times)}
		}
		size = int64(counted) - int64(times)
		fields = fields[4:]
	}
	if len(src) < header {
		return 0, ErrIncomplete
	}
	switch {
	case rec.Op == OpAdd:
		rec.Expiry = int64(int32(binary.LittleEndian.Uint32(fields))) * 1000
	case rec.Op.hasItem():
		rec.Added = int64(binary.LittleEndian.Uint64(fields))
		rec.Expiry = int64(binary.LittleEndian.Uint64(fields[8:]))
	}
	return size, nil
}

// MaxData is the largest item, in bytes, that a record can hold.
const MaxData = math.MaxInt32 - addXTimes

// Append appends rec to dst. Data may have MaxData bytes at most; an expiry in an OpAdd is cut to
// seconds.
func Append(dst []byte, rec *Record) []byte {
	_, times := rec.Op.header()
	dst = append(dst, byte(rec.Op))
	if rec.Op.hasXID() {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(rec.XID))
	}
	if !rec.Op.hasItem() {
		return dst
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(rec.Data)+times))
	if rec.Op == OpAdd {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(int32(rec.Expiry/1000)))
	} else {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(rec.Added))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(rec.Expiry))
	}
	return append(dst, rec.Data...)
}
