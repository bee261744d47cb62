package memcache

import "math"

// relativeLimit is the first expiry taken as absolute Unix time, in seconds. It is Kestrel's: one
// million, not memcached's thirty days.
const relativeLimit = 1_000_000

// ExpiryTime returns the instant a SET's expiry stands for, in milliseconds since 1970; 0 means never. An expiry of 0
// is never. Any other below one million is that many seconds from nowMillis (negative ones are past already). The rest
// are seconds since 1970. An instant at or before the start of 1970 comes back as 1, which is as expired and cannot be
// mistaken for never.
func ExpiryTime(expiry, nowMillis int64) int64 {
	const maxSeconds = math.MaxInt64 / 1000
	switch {
	case expiry == 0:
		return 0
	case expiry > maxSeconds:
		return math.MaxInt64
	case expiry >= relativeLimit:
		return expiry * 1000
	case expiry < -maxSeconds:
		return 1
	}
	return max(nowMillis+expiry*1000, 1)
}
