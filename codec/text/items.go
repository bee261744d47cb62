package text

import "bytes"

// lineEndSize is the most bytes that end a line.
const lineEndSize = len("\r\n")

// Items is how far a connection has come in the item lines of a request. The zero Items is at the
// start of a line, and so is one that DecodeItem has returned ErrEndOfItems for.
type Items struct {
	scanned int  // bytes at the start of src that were seen to hold no line end
	skip    bool // the line that src starts in was too large; it is read over
}

// DecodeItem parses one item line at the start of src and returns the bytes it occupied. The item
// aliases src and is never empty; carriage returns inside it and any bytes above 0x7f are kept.
//
// It returns ErrIncomplete and 0 when src is a proper prefix of a line. src must then begin with the same bytes at the
// next call, which does not look at them again. It returns ErrEndOfItems and the length of the line for the empty line
// that ends the items.
//
// It returns ErrTooLarge, once, for a line whose item exceeds MaxItem, as soon as that is seen.
// Then n is less than the length of the line. The calls that follow return no item and no error
// while they consume the rest of it.
//
// Apart from what it notes in at, which is the caller's, DecodeItem keeps no state. It does not
// allocate, and looks at every byte once.
func (d Decoder) DecodeItem(src []byte, at *Items) (item []byte, n int, err error) {
	if at.skip {
		return at.skipLine(src)
	}
	maxItem := d.MaxItem
	if maxItem <= 0 {
		maxItem = DefaultMaxItem
	}
	line := src[:min(len(src), maxItem+lineEndSize)]
	scanned := min(at.scanned, len(line))
	at.scanned = 0
	end := bytes.IndexByte(line[scanned:], '\n')
	if end < 0 {
		if len(line) == maxItem+lineEndSize {
			at.skip = true
			return nil, maxItem + 1, ErrTooLarge
		}
		at.scanned = len(line)
		return nil, 0, ErrIncomplete
	}
	end += scanned
	item = trimCR(line[:end])
	switch {
	case len(item) > maxItem:
		at.skip = true
		return nil, maxItem + 1, ErrTooLarge
	case len(item) == 0:
		return nil, end + 1, ErrEndOfItems
	}
	return item, end + 1, nil
}

// skipLine consumes src up to the end of the line, or all of it.
func (at *Items) skipLine(src []byte) (item []byte, n int, err error) {
	if len(src) == 0 {
		return nil, 0, ErrIncomplete
	}
	end := bytes.IndexByte(src, '\n')
	if end < 0 {
		return nil, len(src), nil
	}
	at.skip = false
	return nil, end + 1, nil
}
