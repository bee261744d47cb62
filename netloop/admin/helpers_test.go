package admin

import (
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testDeadline bounds every wait for a server that is at fault.
const testDeadline = 20 * time.Second

// tester is an operator with a server of its own.
type tester struct {
	t      testing.TB
	admin  *Server
	server *netloop.Server // nil before attach
	engine *engine.Engine
	fs     *segmenttest.FS
	base   string
	client *http.Client
}

// startUnready answers operators, with nothing attached.
func startUnready(t testing.TB, opts Options) *tester {
	t.Helper()
	opts.Address = "127.0.0.1:0"
	opts.Build = Build{Name: "kestrel", Version: netloop.Version, Go: "go1", Revision: "r1"}
	a, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	a.Start()
	transport := &http.Transport{}
	tt := &tester{
		t: t, admin: a, base: "http://" + a.Addr().String(),
		client: &http.Client{Transport: transport, Timeout: testDeadline},
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
		defer cancel()
		if err := a.Close(ctx); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return tt
}

// start answers operators about a server.
func start(t testing.TB, opts Options, net netloop.Options, settings engine.Settings) *tester {
	t.Helper()
	tt := startUnready(t, opts)
	tt.attach(net, settings)
	return tt
}

// roomy is a file system on a disk that knows how much room it has.
type roomy struct{ *segmenttest.FS }

func (roomy) Space(string) (free, total int64, err error) { return 60 << 30, 100 << 30, nil }

func (tt *tester) attach(opts netloop.Options, settings engine.Settings) {
	tt.t.Helper()
	tt.fs = segmenttest.New()
	e, err := engine.Open(engine.Options{Dir: "data", FS: roomy{tt.fs}, SegmentSize: 1 << 16, Settings: settings})
	if err != nil {
		tt.t.Fatal(err)
	}
	opts.Engine, opts.Memcache, opts.Loops = e, "127.0.0.1:0", 1
	opts.Publishers = append(opts.Publishers, tt.admin)
	s, err := netloop.New(opts)
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		tt.t.Fatal(err)
	}
	tt.engine, tt.server = e, s
	tt.admin.Attach(s)
	tt.t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			tt.t.Errorf("Shutdown = %v", err)
		}
		tt.fs.SetFault(nil)
		e.Close() // some tests have made the journal fail
	})
}

func defaults() engine.Settings { return engine.Settings{Default: engine.DefaultQueueOptions()} }

// put puts an item, past the network.
func (tt *tester) put(queue, data string) {
	tt.t.Helper()
	t, err := tt.engine.Put(engine.Now(), []byte(queue), engine.PutRequest{Data: []byte(data)})
	if err == nil {
		err = tt.engine.Commit(t)
	}
	if err != nil {
		tt.t.Fatalf("put to %s: %v", queue, err)
	}
}

// answer is what came back.
type answer struct {
	code   int
	kind   string // media type
	body   string
	header http.Header
}

func (tt *tester) do(method, path string, header ...string) answer {
	tt.t.Helper()
	req, err := http.NewRequest(method, tt.base+path, nil)
	if err != nil {
		tt.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return tt.send(req)
}

func (tt *tester) send(req *http.Request) answer {
	tt.t.Helper()
	resp, err := tt.client.Do(req)
	if err != nil {
		tt.t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tt.t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return answer{resp.StatusCode, kind, string(body), resp.Header}
}

func (tt *tester) get(path string) answer {
	tt.t.Helper()
	return tt.do(http.MethodGet, path)
}

// expect tests the answer to a GET.
func (tt *tester) expect(path string, code int, body string) {
	tt.t.Helper()
	if got := tt.get(path); got.code != code || got.body != body {
		tt.t.Errorf("GET %s = %d %q, want %d %q", path, got.code, got.body, code, body)
	}
}

// expectPost is expect for a POST.
func (tt *tester) expectPost(path string, code int, body string) {
	tt.t.Helper()
	if got := tt.do(http.MethodPost, path); got.code != code || got.body != body {
		tt.t.Errorf("POST %s = %d %q, want %d %q", path, got.code, got.body, code, body)
	}
}

// statsAnswer is stats.json, as a client decodes it.
type statsAnswer struct {
	Counters map[string]int64
	Metrics  map[string]map[string]int64
	Gauges   map[string]float64
	Labels   map[string]string
}

func (tt *tester) stats(path string) (st statsAnswer) {
	tt.t.Helper()
	got := tt.get(path)
	d := json.NewDecoder(strings.NewReader(got.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&st); err != nil || got.code != http.StatusOK {
		tt.t.Fatalf("GET %s = %d %.200q: %v", path, got.code, got.body, err)
	}
	return st
}
