package memcache

import (
	"math"
	"testing"
)

func TestExpiryTime(t *testing.T) {
	const now = 1_700_000_000_123 // ms
	tests := []struct {
		name        string
		expiry, now int64
		want        int64
	}{
		{"never", 0, now, 0},
		{"M62 relative", 1, now, now + 1000},
		{"M63 already expired", -1, now, now - 1000},
		{"M64 absolute from one million", 1_000_000, now, 1_000_000_000},
		{"M65 relative below one million", 999_999, now, now + 999_999_000},
		{"thirty days are absolute", 30 * 86400, now, 30 * 86400 * 1000},
		{"absolute", 1_700_000_060, now, 1_700_000_060_000},
		{"largest on the wire", math.MaxInt32, now, math.MaxInt32 * 1000},
		{"smallest on the wire", math.MinInt32, now, 1},
		{"exactly 1970 is not never", -5, 5000, 1},
		{"largest", math.MaxInt64, now, math.MaxInt64},
		{"smallest", math.MinInt64, now, 1},
	}
	for _, tt := range tests {
		if got := ExpiryTime(tt.expiry, tt.now); got != tt.want {
			t.Errorf("%s: ExpiryTime(%d, %d) = %d, want %d",
				tt.name, tt.expiry, tt.now, got, tt.want)
		}
	}
}
