package config

import (
	"math"
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	for _, tt := range []struct {
		in   any
		want int64 // -1 for an error
	}{
		{int64(0), 0}, {int64(math.MaxInt64), math.MaxInt64}, {int64(-1), -1},
		{"0", 0}, {"123", 123}, {"123B", 123}, {"1KiB", 1024}, {"1KB", 1000}, {"1 kb", 1000},
		{"16MiB", 16 << 20}, {"16mib", 16 << 20}, {"10MB", 10_000_000}, {"1GiB", 1 << 30},
		{"2GB", 2_000_000_000}, {"1TiB", 1 << 40}, {"3TB", 3_000_000_000_000},
		{"8388607TiB", 8388607 << 40}, {"8388608TiB", -1}, {"9223372036854775807", math.MaxInt64},
		{"9223372036854775808", -1}, {"99999999999999999999KiB", -1},
		{"", -1}, {"MiB", -1}, {"1.5MiB", -1}, {"-1MiB", -1}, {"+1MiB", -1}, {"1M", -1}, {"1MiBs", -1},
		{" 1MiB", -1}, {"1MiB ", -1}, {1.5, -1}, {true, -1}, {nil, -1},
	} {
		got, err := ParseSize(tt.in)
		if want := tt.want; err == nil && got != want || (err == nil) != (want >= 0) {
			t.Errorf("parseSize(%#v) = %d, %v; want %d", tt.in, got, err, want)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1: "1", 1023: "1023", 1024: "1KiB", 1025: "1025", 1 << 20: "1MiB", 3 << 29: "1536MiB",
		1 << 30: "1GiB", 1 << 42: "4TiB", math.MaxInt64: "9223372036854775807",
	} {
		if got := FormatSize(n); got != want {
			t.Errorf("formatSize(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	const bad = -1
	for _, tt := range []struct {
		in   any
		want time.Duration
	}{
		{int64(0), 0}, {"0", 0}, {"0s", 0}, {"0d", 0}, {"1ms", time.Millisecond},
		{"1.5s", 1500 * time.Millisecond},
		{"1h30m", 90 * time.Minute}, {"7d", 7 * 24 * time.Hour}, {"106751d", 106751 * 24 * time.Hour},
		{"106752d", bad}, {"-1d", bad}, {"-1s", bad}, {"1us", bad}, {"999999ns", bad}, {"1.5d", bad},
		{"9999999h", bad}, {"d", bad}, {"", bad}, {"5", bad}, {int64(5), bad}, {0.0, bad}, {false, bad},
	} {
		got, err := parseDuration(tt.in)
		if err == nil && got != tt.want || (err != nil) != (tt.want == bad) {
			t.Errorf("parseDuration(%#v) = %v, %v; want %v", tt.in, got, err, tt.want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Millisecond: "1ms", 10 * time.Second: "10s", time.Minute: "1m",
		10 * time.Minute: "10m",
		90 * time.Second: "1m30s", time.Hour: "1h", 20 * time.Hour: "20h", 90 * time.Minute: "1h30m",
		time.Hour + time.Second: "1h0m1s", 48 * time.Hour: "2d", 25 * time.Hour: "25h",
	} {
		if got := formatDuration(d); got != want {
			t.Errorf("formatDuration(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestSetPort(t *testing.T) {
	for in, want := range map[string]port{
		"1": 1, "65535": 65535, "0": portOff, "none": portOff, "auto": portAuto,
	} {
		got := port(7)
		v := optional(&got, portOff, automatic(&got, portAuto, portValue{&got}))
		if err := setString(v, in); err != nil || got != want {
			t.Errorf("port %s = %d, %v; want %d", in, got, err, want)
		}
	}
}

func TestSetHost(t *testing.T) {
	for in, good := range map[string]bool{
		"127.0.0.1": true, "0.0.0.0": true, "::1": true, "::": true, "fe80::1%eth0": true,
		"localhost": true, "mq.example.com": true,
		"": false, "a b": false, "[::1]": false, "localhost:80": false, "/tmp/s": false,
	} {
		got := "old"
		err := hostValue{&got}.Set(in)
		if (err == nil) != good || good && got != in || !good && got != "old" {
			t.Errorf("address %q = %q, %v; want good = %t", in, got, err, good)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"abc", "abc", 0}, {"abc", "ab", 1}, {"abc", "xabc", 1}, {"abc", "axc", 1},
		{"abc", "acb", 1}, {"abcd", "badc", 2}, {"abc", "xyz", 3}, {"abc", "abcdefgh", 4},
	} {
		if got := distance(tt.a, tt.b, 4); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
