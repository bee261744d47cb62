package text_test

import (
	"bytes"
	"fmt"

	"github.com/kestrelmq/kestrel/codec/text"
)

// A server reads the items of a put one at a time, as they arrive, and answers at their end.
func ExampleDecoder_DecodeItem() {
	var (
		decoder text.Decoder
		req     text.Request
		items   text.Items
		follow  bool // items do
		answer  bool // they are those of a put, to be answered at their end
		stored  [][]byte
		out     []byte
		unread  []byte
	)
	for _, arrived := range []string{"put work:\nhel", "lo\nworld\n\nfrob:\nx\n", "\nget wo"} {
		unread = append(unread, arrived...)
		for {
			if follow {
				item, n, err := decoder.DecodeItem(unread, &items)
				if err == text.ErrIncomplete {
					break
				}
				unread = unread[n:]
				switch {
				case err == text.ErrEndOfItems:
					follow = false
					if answer {
						out = text.AppendCount(out, int64(len(stored)))
					}
				case item != nil && answer: // without an item: too large, or the rest of that
					stored = append(stored, bytes.Clone(item))
				}
				continue
			}
			n, err := decoder.Decode(unread, &req)
			if err == text.ErrIncomplete {
				break
			}
			unread = unread[n:]
			follow = req.ItemsFollow
			answer = follow && err == nil && req.Op == text.OpPut
			if refused, ok := err.(*text.ProtocolError); ok {
				out = refused.AppendReply(out, &req)
				if refused.Fatal {
					break
				}
			}
		}
	}
	fmt.Printf("%q\n%q\n%q\n", stored, out, unread)
	// Output:
	// ["hello" "world"]
	// "+2\n-Unknown command: frob\n"
	// "get wo"
}
