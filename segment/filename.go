package segment

import (
	"fmt"
	"strconv"
	"strings"
)

// Names in a log's directory; the number is decimal, padded to ten digits.
//
//	NNNNNNNNNN.seg     a segment, header synced
//	NNNNNNNNNN.spare   a dropped segment kept for its blocks; its contents mean nothing
//	NNNNNNNNNN.new     a segment being made; removed at open
//	NNNNNNNNNN.torn    what recovery cut from segment N, kept for a human and never read;
//	                   .torn.2, .torn.3 … if taken
const (
	segmentExt = ".seg"
	spareExt   = ".spare"
	newExt     = ".new"
	tornExt    = ".torn"
)

func fileName(number uint64, ext string) string { return fmt.Sprintf("%010d%s", number, ext) }

// parseFileName splits a name into number and extension. ok is false for a name that means nothing
// to a log.
func parseFileName(name string) (number uint64, ext string, ok bool) {
	digits, rest, _ := strings.Cut(name, ".")
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || number == 0 || fileName(number, "") != digits {
		return 0, "", false
	}
	switch ext = "." + rest; ext {
	case segmentExt, spareExt, newExt:
		return number, ext, true
	}
	return 0, "", false
}
