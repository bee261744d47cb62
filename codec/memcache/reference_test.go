package memcache

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// refNumber is the number that a word stands for, by the words of the specification: an optional sign and decimal digits.
func refNumber(word string, least, most int64) (n int64, ok bool) {
	digits := strings.TrimPrefix(word, "-")
	if digits == word {
		digits = strings.TrimPrefix(word, "+")
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	v, _ := new(big.Int).SetString(word, 10)
	if !v.IsInt64() || v.Int64() < least || v.Int64() > most {
		return 0, false
	}
	return v.Int64(), true
}

// refDecode reads one request of the commands that have numbers, slowly and plainly. It returns what Decode is to say as
// text, and how many bytes the request has.
func refDecode(src string, maxItem int) (said string, n int) {
	fatal := "fatal"
	line, rest, found := strings.Cut(src, "\n")
	if !found {
		return "incomplete", 0
	}
	n = len(line) + 1
	words := strings.Split(strings.TrimRight(strings.TrimSuffix(line, "\r"), " "), " ")
	int32s := func(word string) (int64, bool) { return refNumber(word, math.MinInt32, math.MaxInt32) }
	switch strings.ToLower(words[0]) {
	case "set", "add":
		if len(words) < 5 {
			return fatal, 0
		}
		count, ok := refNumber(words[4], 0, math.MaxInt32)
		if !ok {
			return fatal, 0
		}
		noReply := len(words) > 5 && words[len(words)-1] == "noreply"
		if strings.EqualFold(words[0], "add") {
			if int(count) <= maxItem && len(rest) < int(count)+2 {
				return "incomplete", 0
			}
			return fatal, 0
		}
		if int(count) > maxItem {
			return fmt.Sprintf("too large, skip %d, no reply %t", count+2, noReply), n
		}
		if len(rest) < int(count)+2 {
			return "incomplete", 0
		}
		n += int(count) + 2
		expiry, ok := int32s(words[3])
		if !ok {
			return fatal, 0
		}
		flags, ok := refNumber(words[2], math.MinInt32, math.MaxUint32)
		if !ok || words[1] != "" && strings.Trim(words[1], "+") == "" {
			return fmt.Sprintf("refused, no reply %t", noReply), n
		}
		data, end := rest[:count], rest[count:count+2]
		return fmt.Sprintf("set %q %d %d %q, bad end %t, no reply %t", words[1], uint32(flags), expiry, data,
			end != "\r\n" && end != "\n\n", noReply), n
	case "monitor":
		if len(words) < 3 {
			return fatal, 0
		}
		seconds, ok := int32s(words[2])
		if !ok {
			return fatal, 0
		}
		said = fmt.Sprintf("monitor %q %d", words[1], seconds)
		if len(words) > 3 {
			most, ok := int32s(words[3])
			if !ok {
				return fatal, 0
			}
			said += fmt.Sprint(" ", most)
		}
		return said, n
	case "confirm":
		if len(words) < 3 {
			return "refused, no reply false", n
		}
		count, ok := int32s(words[2])
		if !ok {
			return fatal, 0
		}
		return fmt.Sprintf("confirm %q %d", words[1], count), n
	}
	return fatal, 0
}

// decodeSaid is what Decode says, as refDecode has it.
func decodeSaid(src string, maxItem int) (said string, n int) {
	var req Request
	n, err := Decoder{MaxItem: maxItem}.Decode([]byte(src), &req)
	switch refused, is := err.(*ProtocolError); {
	case is && refused.Fatal:
		return "fatal", n
	case is:
		return fmt.Sprintf("refused, no reply %t", req.NoReply), n
	case err == ErrIncomplete:
		return "incomplete", n
	case err == ErrTooLarge:
		return fmt.Sprintf("too large, skip %d, no reply %t", req.Skip, req.NoReply), n
	}
	switch req.Op {
	case OpSet:
		return fmt.Sprintf("set %q %d %d %q, bad end %t, no reply %t", req.Queue, req.Flags, req.Expiry, req.Data, req.BadEnd,
			req.NoReply), n
	case OpMonitor:
		said = fmt.Sprintf("monitor %q %d", req.Queue, req.Seconds)
		if req.HasMaxItems {
			said += fmt.Sprint(" ", req.MaxItems)
		}
		return said, n
	}
	return fmt.Sprintf("confirm %q %d", req.Queue, req.Count), n
}

// TestDecodeReference compares Decode with refDecode on random lines of numbers and what looks like them. Each input is
// cut at every byte: what comes first is incomplete, or refused as the whole is.
func TestDecodeReference(t *testing.T) {
	const rounds, maxItem = 400, 20
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	number := func() string {
		return pick("", "-", "+", "--", "", "") + pick("0", "1", "5", "7", "10", "000", "007", "18", "21", "2147483647", "2147483648",
			"4294967295", "4294967296", "8589934592", "9223372036854775807", "9223372036854775808", "18446744073709551616",
			strings.Repeat("9", 40), "", "x", "1x", "1.", "0x1", "1\t", "\xb2", "٣") + pick("", "", "", " ")
	}
	for range rounds {
		var b strings.Builder
		b.WriteString(pick("set", "SET", "Set", "set", "add", "monitor", "MONITOR", "confirm", "sett", "se"))
		b.WriteString(" " + pick("q", "q", "q", "", "+", "++", "q+c", "0", "12"))
		for range r.IntN(6) {
			b.WriteString(" " + number())
		}
		b.WriteString(pick("", "", " noreply", " noreply ", " NOREPLY", " x noreply", "noreply") + pick("\r\n", "\r\n", "\n", "\r\r\n", ""))
		b.WriteString(strings.Repeat("d", r.IntN(8)) + pick("\r\n", "\n\n", "\r\r", "\n\r", "xx", "") + pick("", "get q\r\n"))
		src := b.String()
		want, wantN := refDecode(src, maxItem)
		got, n := decodeSaid(src, maxItem)
		if got != want || n != wantN {
			t.Fatalf("seed %d: Decode(%q) = %s, %d bytes; want %s, %d", seed, src, got, n, want, wantN)
		}
		for at := range len(src) {
			cut, _ := decodeSaid(src[:at], maxItem)
			if wantCut, _ := refDecode(src[:at], maxItem); cut != wantCut || cut != "incomplete" && cut != want {
				t.Fatalf("seed %d: Decode(%q) = %s, want %s; the whole is %s", seed, src[:at], cut, wantCut, want)
			}
		}
	}
}
