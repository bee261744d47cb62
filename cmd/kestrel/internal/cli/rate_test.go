package cli

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestRate(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "7": 7, "20000": 20_000, "50k": 50_000, "1.5M": 1.5e6, "1e3": 1000} {
		rate := 12.0
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		RateVar(f, &rate, "rate", "a rate")
		if was := f.Lookup("rate").DefValue; was != "12" {
			t.Errorf("the default is %q", was)
		}
		if err := f.Parse([]string{"--rate", text}); err != nil || rate != want {
			t.Errorf("--rate %s is %v, %v, want %v", text, rate, err, want)
		}
	}
	for _, text := range []string{"", "k", "many", "5x", "5kk", "-1", "NaN", "Inf", "1e9M"} {
		if rate, err := ParseRate(text); err == nil || strings.Contains(err.Error(), "strconv") {
			t.Errorf("ParseRate(%q) = %v, %v, want an error in plain words", text, rate, err)
		}
	}
}
