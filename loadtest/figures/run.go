package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// Format is the version of the document's layout.
const Format = 1

// Run is one run of a scenario. Times are nanoseconds unless their name says otherwise.
type Run struct {
	Format   int               `json:"format"`
	Label    string            `json:"label"` // what is measured; runs with one label are rounds of it
	Scenario string            `json:"scenario"`
	Started  time.Time         `json:"started"`
	Options  map[string]string `json:"options"` // every option with the value it had
	Seed     uint64            `json:"seed"`
	Machine  Machine           `json:"machine"`
	Versions Versions          `json:"versions"`
	Server   Server            `json:"server"`
	Phases   []*Phase          `json:"phases"`
	Checked  Checked           `json:"checked"`
	Notes    []string          `json:"notes,omitempty"` // what makes the figures doubtful
	Failure  string            `json:"failure,omitempty"`
}

// Machine is where the generator ran.
type Machine struct {
	CPU         string `json:"cpu"` // model
	Cores       int    `json:"cores"`
	Kernel      string `json:"kernel"`
	MemoryBytes int64  `json:"memory_bytes"`
}

// Versions are those of the programs.
type Versions struct {
	Generator string `json:"generator"`
	Revision  string `json:"revision"`
	Go        string `json:"go"`
	Server    string `json:"server,omitempty"` // as the server says
}

// Server is what was measured.
type Server struct {
	Address    string `json:"address"`
	Protocol   string `json:"protocol"`
	PID        int    `json:"pid,omitempty"` // 0 if its processor time and memory are not known
	Processors int    `json:"processors,omitempty"`
	Spawned    bool   `json:"spawned"`
	Command    string `json:"command,omitempty"`
}

// Checked is what verification found.
type Checked struct {
	Verified    bool  `json:"verified"`
	Put         int64 `json:"put"`
	Got         int64 `json:"got"`
	Left        int64 `json:"left"` // acknowledged and not got; a fanout item counts for each queue
	Lost        int64 `json:"lost"` // of those, what should have been got
	Redelivered int64 `json:"redelivered"`
	Foreign     int64 `json:"foreign"`
	Early       int64 `json:"early,omitempty"` // of delays and leases: came before its time
	Twice       int64 `json:"twice,omitempty"` // came after its end
}

// Phase is a part of a scenario in which the load stays the same.
type Phase struct {
	Name      string     `json:"name"`
	Start     int64      `json:"start_ns"` // since Run.Started
	Wall      int64      `json:"wall_ns"`
	Target    float64    `json:"target_rate,omitempty"` // requests a second asked for
	Ops       []Op       `json:"ops"`
	Delivery  *Latency   `json:"delivery,omitempty"` // age of items when they were got
	Lag       *Latency   `json:"generator_lag,omitempty"`
	Unsent    int64      `json:"unsent,omitempty"`
	Generator Generator  `json:"generator"`
	Server    *Usage     `json:"server,omitempty"`
	Intervals []Interval `json:"intervals,omitempty"`
}

// Op is one kind of request.
type Op struct {
	Name     string   `json:"name"`
	Requests int64    `json:"requests"`
	Items    int64    `json:"items"`
	Misses   int64    `json:"misses"`
	Rate     float64  `json:"rate"` // requests a second
	Latency  *Latency `json:"latency"`
}

// Latency is a distribution of times.
type Latency struct {
	Count     int64   `json:"count"`
	Mean      float64 `json:"mean_ns"`
	Min       int64   `json:"min_ns"`
	P50       int64   `json:"p50_ns"`
	P90       int64   `json:"p90_ns"`
	P99       int64   `json:"p99_ns"`
	P999      int64   `json:"p999_ns"`
	P9999     int64   `json:"p9999_ns"`
	Max       int64   `json:"max_ns"`
	Histogram string  `json:"histogram,omitempty"` // compressed V2 encoding, base64
}

// Generator is what the load cost.
type Generator struct {
	Threads    int     `json:"threads"`
	ThreadCPU  int64   `json:"thread_cpu_ns"`
	ProcessCPU int64   `json:"process_cpu_ns"`
	Busy       float64 `json:"busy"` // share of its threads' time that they ran
}

// Usage is what a server used.
type Usage struct {
	CPU       int64 `json:"cpu_ns"`
	Resident  int64 `json:"resident_bytes"` // at the end
	Peak      int64 `json:"peak_bytes"`     // greatest seen at the end of an interval
	PerOpCPU  int64 `json:"cpu_per_request_ns"`
	AtStart   int64 `json:"resident_at_start_bytes"`
	Processor int   `json:"processors"` // that it may use
}

// Interval is a part of a phase.
type Interval struct {
	Start    int64        `json:"start_ns"` // since the phase began
	Wall     int64        `json:"wall_ns"`
	Ops      []IntervalOp `json:"ops"`
	Delivery *Quantiles   `json:"delivery,omitempty"`
	Server   *Sample      `json:"server,omitempty"`
}

// IntervalOp is one kind of request in an interval.
type IntervalOp struct {
	Name     string `json:"name"`
	Requests int64  `json:"requests"`
	Quantiles
}

// Quantiles are the figures kept of an interval's distribution.
type Quantiles struct {
	P50  int64 `json:"p50_ns"`
	P99  int64 `json:"p99_ns"`
	P999 int64 `json:"p999_ns"`
	Max  int64 `json:"max_ns"`
}

// Sample is the state of a server at one moment. Fields it does not tell are -1.
type Sample struct {
	CPU          int64 `json:"cpu_ns"` // since the process began
	Resident     int64 `json:"resident_bytes"`
	Items        int64 `json:"items"` // in the queues of the scenario
	Bytes        int64 `json:"bytes"`
	MemItems     int64 `json:"mem_items"`
	MemBytes     int64 `json:"mem_bytes"`
	JournalBytes int64 `json:"journal_bytes"`
}

// Write writes the document.
func (r *Run) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// Read reads a document and checks that it is one.
func Read(file string) (*Run, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, d := new(Run), json.NewDecoder(f) // it reads no further than the first mistake: of /dev/zero, nothing
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("%s is not the figures of a load test: %w", file, err)
	}
	if r.Format != Format {
		return nil, fmt.Errorf("%s has format %d of the figures of a load test, want %d", file, r.Format,
			Format)
	}
	for _, p := range r.Phases {
		if p == nil {
			return nil, fmt.Errorf("%s has an empty phase", file)
		}
	}
	return r, nil
}

// Name is what a run is called among others: its label, or else its scenario.
func (r *Run) Name() string {
	if r.Label != "" {
		return r.Label
	}
	return r.Scenario
}

// Op returns the figures of a kind of request, or nil.
func (p *Phase) Op(name string) *Op {
	for i := range p.Ops {
		if p.Ops[i].Name == name {
			return &p.Ops[i]
		}
	}
	return nil
}

// Requests returns the requests of all kinds.
func (p *Phase) Requests() (n int64) {
	for _, op := range p.Ops {
		n += op.Requests
	}
	return n
}
