package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// unit is a unit of sizes and the number of bytes in it.
type unit struct {
	name  string
	bytes int64
}

// units returns the units of sizes, largest first within each family.
func units() []unit {
	return []unit{
		{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
		{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
	}
}

// ParseSize returns the number of bytes that a whole number, or a string such as "16MiB", says.
// Units may be written in any case: KB, MB, GB and TB are powers of 1000, KiB, MiB, GiB and TiB of
// 1024.
func ParseSize(v any) (int64, error) {
	if n, ok := v.(int64); ok && n >= 0 {
		return n, nil
	}
	s, ok := v.(string)
	if !ok {
		return 0, errUnwanted
	}
	digits := strings.TrimLeft(s, "0123456789")
	number, name := s[:len(s)-len(digits)], strings.TrimLeft(digits, " ")
	if number == "" {
		return 0, errUnwanted
	}
	n, err := strconv.ParseInt(number, 10, 64)
	bytes, known := int64(1), name == ""
	for _, u := range units() {
		if strings.EqualFold(name, u.name) {
			bytes, known = u.bytes, true
		}
	}
	switch {
	case !known:
		return 0, errUnwanted
	case err != nil || n > math.MaxInt64/bytes:
		return 0, fmt.Errorf("%s is more than the largest size, %d bytes", describe(v), math.MaxInt64)
	}
	return n * bytes, nil
}

// FormatSize writes n in the largest power of 1024 that divides it.
func FormatSize(n int64) string {
	for _, u := range units()[:4] {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// sizeValue is a number of bytes.
type sizeValue struct {
	p   *int64
	min int64
}

func (s sizeValue) Set(v any) error {
	n, err := ParseSize(v)
	if err != nil {
		return err
	}
	if n < s.min {
		return fmt.Errorf("want at least %s, have %s", FormatSize(s.min), describe(v))
	}
	*s.p = n
	return nil
}

func (s sizeValue) String() string {
	text := FormatSize(*s.p)
	if strings.HasSuffix(text, "B") {
		return strconv.Quote(text)
	}
	return text
}

func (s sizeValue) Kind() string { return "size" }
func (s sizeValue) Want() string { return `a size such as 1048576 or "16MiB"` }
