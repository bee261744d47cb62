package accountname

import (
	"fmt"
	"strings"
)

// Account and queue may have any characters but slash and NUL. Four bytes mean something in names: percent, dot, plus
// and tilde. In the name of the queue each is a percent sign and two hexadecimal digits. So a queue of an account is
// never a fanout child.

// Default is the account of the queues that have none in their name.
const Default = "default"

// Append appends the name of a queue of an account.
func Append(dst, account, queue []byte) []byte {
	if string(account) == Default {
		return append(dst, queue...)
	}
	dst = appendEscaped(dst, account)
	dst = append(dst, '/')
	return appendEscaped(dst, queue)
}

const escaped = "%+.~"

// appendEscaped appends one part of a name.
func appendEscaped(dst, part []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range part {
		if strings.IndexByte(escaped, c) >= 0 {
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// unescaped returns one part of a name as its account's clients spell it.
func unescaped(part string) string {
	if strings.IndexByte(part, '%') < 0 {
		return part
	}
	b := make([]byte, 0, len(part))
	for i := 0; i < len(part); i++ {
		c := part[i]
		if c == '%' && i+2 < len(part) {
			if _, err := fmt.Sscanf(part[i+1:i+3], "%02X", &c); err == nil {
				i += 2
			}
		}
		b = append(b, c)
	}
	return string(b)
}

// Cut returns the account and the queue that name stands for.
func Cut(name string) (account, queue string) {
	account, queue, found := strings.Cut(name, "/")
	if !found {
		return Default, name
	}
	return unescaped(account), unescaped(queue)
}

// Of returns the account part of a queue's name, as it stands there; empty for Default.
func Of(name string) string {
	if i := strings.IndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return ""
}

// InName returns an account as it stands in the names of its queues.
func InName(account []byte) string {
	if string(account) == Default {
		return ""
	}
	return string(appendEscaped(nil, account))
}

// Misplaced reports whether name has a slash that does not stand between an account and a queue.
func Misplaced(name string) bool {
	account, rest, found := strings.Cut(name, "/")
	return found && (account == "" || rest == "" || account == Default || strings.IndexByte(rest, '/') >= 0)
}
