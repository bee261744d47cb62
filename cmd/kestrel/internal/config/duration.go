package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// parseDuration returns the duration that a string such as "100ms", "1h30m" or "7d", or the number 0, says. It is 0, or
// at least a millisecond, which is what the server counts in.
func parseDuration(v any) (time.Duration, error) {
	if v == int64(0) {
		return 0, nil
	}
	s, ok := v.(string)
	if !ok {
		return 0, errUnwanted
	}
	d, err := time.ParseDuration(s)
	if days, found := strings.CutSuffix(s, "d"); found {
		var n int64
		if n, err = strconv.ParseInt(days, 10, 64); err == nil && n > math.MaxInt64/int64(24*time.Hour) {
			return 0, fmt.Errorf("%s is more than the longest duration, 106751d", describe(v))
		}
		d = time.Duration(n) * 24 * time.Hour
	}
	switch {
	case err != nil || d < 0:
		return 0, errUnwanted
	case d > 0 && d < time.Millisecond:
		return 0, fmt.Errorf("want 0 or at least 1ms, have %s", describe(v))
	}
	return d, nil
}

// formatDuration writes d without the zeros that time.Duration puts behind: 1h, not 1h0m0s.
func formatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = text[:len(text)-len("0s")]
	}
	if strings.HasSuffix(text, "h0m") {
		text = text[:len(text)-len("0m")]
	}
	return text
}

// durationValue is a length of time.
type durationValue struct{ p *time.Duration }

func (d durationValue) Set(v any) error {
	parsed, err := parseDuration(v)
	if err == nil {
		*d.p = parsed
	}
	return err
}

func (d durationValue) String() string { return strconv.Quote(formatDuration(*d.p)) }
func (d durationValue) Kind() string   { return "duration" }
func (d durationValue) Want() string   { return `a duration such as "30s" or "100ms"` }

// optionalDuration is the duration kept at p, where "none" is written for 0.
func optionalDuration(p *time.Duration) Value { return optional(p, 0, durationValue{p}) }
