package loadcmd

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
	"github.com/kestrelmq/kestrel/loadtest/scenario"
)

// mixedFile is the file of `kestrel load mixed`.
type mixedFile struct {
	Duration time.Duration `toml:"duration"`
	Items    int64         `toml:"items"`
	Flow     []mixedFlow   `toml:"flow"`
}

type mixedFlow struct {
	Queue     *string        `toml:"queue"`
	Queues    *int           `toml:"queues"`
	Size      *int           `toml:"size"`
	Producers *int           `toml:"producers"`
	Consumers *int           `toml:"consumers"`
	Rate      float64        `toml:"rate"`
	Poisson   bool           `toml:"poisson"`
	Pipeline  *int           `toml:"pipeline"`
	Wait      *time.Duration `toml:"wait"`
	Reliable  bool           `toml:"reliable"`
	Reconnect int            `toml:"reconnect"`
}

// readMixed reads the scenario from a file.
func readMixed(file string) (scenario.Mixed, error) {
	f, err := os.Open(file)
	if err != nil {
		return scenario.Mixed{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, config.MaxSize+1))
	if err == nil && len(text) > config.MaxSize {
		err = fmt.Errorf("%s is larger than %s", file, config.FormatSize(config.MaxSize))
	}
	if err != nil {
		return scenario.Mixed{}, err
	}
	s, err := parseMixed(string(text))
	if err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

func parseMixed(text string) (scenario.Mixed, error) {
	var in mixedFile
	meta, err := toml.Decode(text, &in)
	if err != nil {
		return scenario.Mixed{}, err
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return scenario.Mixed{}, fmt.Errorf("unknown key %s", unknown[0])
	}
	s := scenario.Mixed{Duration: in.Duration, Items: in.Items}
	for _, f := range in.Flow {
		flow := defaultFlow()
		flow.Rate, flow.Poisson, flow.Reliable, flow.Reconnect = f.Rate, f.Poisson, f.Reliable, f.Reconnect
		setIf(&flow.Queue, f.Queue)
		setIf(&flow.Queues, f.Queues)
		setIf(&flow.Size, f.Size)
		setIf(&flow.Producers, f.Producers)
		setIf(&flow.Consumers, f.Consumers)
		setIf(&flow.Pipeline, f.Pipeline)
		setIf(&flow.Wait, f.Wait)
		s.Flows = append(s.Flows, flow)
	}
	return s, nil
}

func setIf[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}
