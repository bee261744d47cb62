package top

import (
	"context"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/sample"
)

// kept is how many samples the charts of a queue go back.
const kept = 240

// Options say what is shown.
type Options struct {
	Interval time.Duration // between samples
	Filter   string        // that names of queues contain
	Address  string        // of the servers, for the title
	// Connections returns the connections that hold items of a queue or wait for it; nil if nobody can be asked.
	Connections func(ctx context.Context, queue string) (Connections, error)
}

// Connections are those of one queue.
type Connections struct {
	Matched int64 // how many there are; List may have fewer
	List    []Connection
}

// Connection is a connection of a client, in words.
type Connection struct {
	Number          uint64
	Peer, Protocol  string
	Age, Idle       time.Duration
	Requests, Holds int64         // Holds are items of the queue
	Oldest          time.Duration // that it has held one of them
	Waits           bool          // for the queue
}

// Run shows what take returns, every interval, until somebody ends it or ctx ends.
func Run(ctx context.Context, take func(context.Context) sample.Sample, opts Options, terminal ...tea.ProgramOption) error {
	m := newModel(ctx, take, opts)
	_, err := tea.NewProgram(m, append([]tea.ProgramOption{tea.WithContext(ctx)}, terminal...)...).Run()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Once returns one picture, without colours, width columns wide: of what happened within the
// interval. Without a server that answers there is only an error.
func Once(ctx context.Context, take func(context.Context) sample.Sample, opts Options, width int) (string, error) {
	m := newModel(ctx, take, opts)
	m.sampled(take(ctx))
	select {
	case <-time.After(opts.Interval):
	case <-ctx.Done():
	}
	m.sampled(take(ctx))
	if !m.now.Answered() {
		return "", m.now.Err()
	}
	m.width, m.height = width, 6+len(m.rows)
	m.plain = true
	return m.draw(), m.now.Err()
}

// model is the state of the screen. Its methods run on one goroutine; take runs on others.
type model struct {
	ctx  context.Context
	take func(context.Context) sample.Sample
	opts Options

	width, height int
	plain         bool // no colours, no line of keys

	now, last sample.Sample
	history   map[string][]point // by queue, the newest last
	rows      []row              // what is listed, in order

	sorted  column
	reverse bool
	filter  string
	typing  bool // the filter is being typed
	paused  bool
	help    bool
	chosen  string // the queue that the cursor is on
	first   int    // of rows that the screen shows
	inside  bool   // the chosen queue fills the screen
	clients bool   // with its connections
	asked   connectionsMsg
}

// row is a queue in the list.
type row struct {
	sample.Queue
	sample.Rates
}

// point is a queue at one moment, for charts.
type point struct {
	items   int64
	in, out float64
}

// Messages of the program.
type (
	sampleMsg sample.Sample
	dueMsg    struct{}
	// connectionsMsg is who was connected to a queue.
	connectionsMsg struct {
		queue string
		Connections
		err error
	}
)

func newModel(ctx context.Context, take func(context.Context) sample.Sample, opts Options) *model {
	return &model{ctx: ctx, take: take, opts: opts, filter: opts.Filter, width: 80, height: 24,
		history: make(map[string][]point), sorted: columnItems}
}

// Init takes the first sample.
func (m *model) Init() tea.Cmd { return m.look }

// look takes a sample; it runs beside the screen.
func (m *model) look() tea.Msg { return sampleMsg(m.take(m.ctx)) }

// askConnections asks who is connected to the chosen queue, if that is on the screen.
func (m *model) askConnections() tea.Cmd {
	if !m.clients || m.opts.Connections == nil {
		return nil
	}
	queue := m.chosen
	return func() tea.Msg {
		got, err := m.opts.Connections(m.ctx, queue)
		return connectionsMsg{queue, got, err}
	}
}

// due asks for the next sample after the interval.
func (m *model) due() tea.Cmd {
	return tea.Tick(m.opts.Interval, func(time.Time) tea.Msg { return dueMsg{} })
}

// Update takes what has happened.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case sampleMsg:
		m.sampled(sample.Sample(msg))
		return m, m.due()
	case connectionsMsg:
		m.asked = msg
	case dueMsg:
		if m.paused {
			return m, m.due()
		}
		return m, tea.Batch(m.look, m.askConnections())
	case tea.KeyPressMsg:
		return m, m.key(tea.KeyPressMsg(msg))
	}
	return m, nil
}

// View draws the screen.
func (m *model) View() tea.View {
	v := tea.NewView(m.draw())
	v.AltScreen = true
	v.WindowTitle = "kestrel top"
	return v
}

// sampled takes a sample in.
func (m *model) sampled(s sample.Sample) {
	m.last, m.now = m.now, s
	for _, q := range s.Queues {
		rates := s.Since(m.last, q.Name)
		points := append(m.history[q.Name], point{q.Items, rates.In, rates.Out})
		m.history[q.Name] = points[max(0, len(points)-kept):]
	}
	for name := range m.history {
		if _, ok := s.Find(name); !ok {
			delete(m.history, name)
		}
	}
	m.arrange()
}

// arrange makes the rows: those that the filter leaves, in their order.
func (m *model) arrange() {
	m.rows = m.rows[:0]
	for _, q := range m.now.Queues {
		if strings.Contains(strings.ToLower(q.Name), strings.ToLower(m.filter)) {
			m.rows = append(m.rows, row{q, m.now.Since(m.last, q.Name)})
		}
	}
	slices.SortStableFunc(m.rows, func(a, b row) int {
		order := columns[m.sorted].compare(a, b)
		if m.reverse {
			return -order
		}
		return order
	})
	if !m.inside && m.cursor() < 0 {
		m.moveTo(0)
	}
}

// cursor returns the index of the chosen row, -1 if it is not listed.
func (m *model) cursor() int {
	return slices.IndexFunc(m.rows, func(r row) bool { return r.Name == m.chosen })
}

// moveTo chooses a row, or the nearest there is.
func (m *model) moveTo(i int) {
	if len(m.rows) == 0 {
		m.chosen = ""
		return
	}
	m.chosen = m.rows[min(max(i, 0), len(m.rows)-1)].Name
}
