package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/pflag"
)

// errRate says what a rate looks like.
var errRate = errors.New("want a number a second, such as 20000, 50k or 1.5M")

// mostRate is more than any server takes.
const mostRate = 1e12

// ParseRate reads how many there are a second: 50000, 50k or 1.5M.
func ParseRate(text string) (float64, error) {
	number, unit := text, 1.0
	if n := len(text); n > 0 {
		switch text[n-1] {
		case 'k':
			number, unit = text[:n-1], 1e3
		case 'M':
			number, unit = text[:n-1], 1e6
		}
	}
	rate, err := strconv.ParseFloat(number, 64)
	if rate *= unit; err != nil || math.IsNaN(rate) || rate < 0 {
		return 0, errRate
	}
	if rate > mostRate {
		return 0, fmt.Errorf("more than any server takes, want at most %g", mostRate)
	}
	return rate, nil
}

// RateVar defines a flag that ParseRate reads. Its default is what rate has.
func RateVar(f *pflag.FlagSet, rate *float64, name, usage string) {
	f.Var((*rateValue)(rate), name, usage)
}

// rateValue implements pflag.Value.
type rateValue float64

func (r *rateValue) String() string { return strconv.FormatFloat(float64(*r), 'g', -1, 64) }

func (r *rateValue) Type() string { return "NUMBER" }

func (r *rateValue) Set(text string) error {
	rate, err := ParseRate(text)
	if err == nil {
		*r = rateValue(rate)
	}
	return err
}
