package memcache

import "strconv"

// Layout of the long replies. Each ends with ReplyEnd.
//
//	STATS                    DUMP_STATS, DUMP_CONFIG
//	STAT <name> <value>\r\n  queue '<queue>' {\r\n
//	END\r\n                  ␣␣<name>=<value>\r\n
//	                         }\r\n
//	                         END\r\n
const (
	// DumpNothing stands in a block for the entries of a queue that does not exist.
	DumpNothing = "  \r\n"
	// DumpQueueEnd closes a block.
	DumpQueueEnd = "}\r\n"
)

// AppendStat appends one line of STATS. An empty value leaves a line that ends in a space.
func AppendStat(dst []byte, name, value string) []byte {
	dst = append(dst, "STAT "...)
	dst = append(dst, name...)
	return appendStatValue(dst, value)
}

// AppendStatInt appends one line of STATS whose value is a number.
func AppendStatInt(dst []byte, name string, value int64) []byte {
	dst = append(dst, "STAT "...)
	dst = append(dst, name...)
	return appendStatNumber(dst, value)
}

// AppendQueueStat appends the line of STATS for one entry of a queue, queue_<queue>_<name>.
func AppendQueueStat(dst []byte, queue, name, value string) []byte {
	return appendStatValue(appendQueueStatName(dst, queue, name), value)
}

// AppendQueueStatInt appends the line of STATS for one entry of a queue whose value is a number.
func AppendQueueStatInt(dst []byte, queue, name string, value int64) []byte {
	return appendStatNumber(appendQueueStatName(dst, queue, name), value)
}

// AppendDumpQueue opens a queue's block in DUMP_STATS and DUMP_CONFIG.
func AppendDumpQueue(dst []byte, queue string) []byte {
	dst = append(dst, "queue '"...)
	dst = append(dst, queue...)
	return append(dst, "' {\r\n"...)
}

// AppendDumpEntry appends one entry of a block.
func AppendDumpEntry(dst []byte, name, value string) []byte {
	dst = appendDumpName(dst, name)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// AppendDumpEntryInt appends one entry of a block whose value is a number.
func AppendDumpEntryInt(dst []byte, name string, value int64) []byte {
	dst = strconv.AppendInt(appendDumpName(dst, name), value, 10)
	return append(dst, "\r\n"...)
}

func appendQueueStatName(dst []byte, queue, name string) []byte {
	dst = append(dst, "STAT queue_"...)
	dst = append(dst, queue...)
	dst = append(dst, '_')
	return append(dst, name...)
}

func appendStatValue(dst []byte, value string) []byte {
	dst = append(dst, ' ')
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

func appendStatNumber(dst []byte, value int64) []byte {
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, value, 10)
	return append(dst, "\r\n"...)
}

func appendDumpName(dst []byte, name string) []byte {
	dst = append(dst, "  "...)
	dst = append(dst, name...)
	return append(dst, '=')
}
