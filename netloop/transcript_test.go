package netloop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/kestrelmq/kestrel/engine"
)

// A transcript is one conversation of testdata/*.txt; the notation is explained there.
type transcript struct {
	name  string
	line  int
	steps []step
}

type step struct {
	line int
	text string
}

func readTranscripts(t *testing.T, file string) []transcript {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	title := regexp.MustCompile(`^[MTHLKP][0-9]{2} `)
	var all []transcript
	for i, line := range strings.Split(string(b), "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case title.MatchString(line):
			all = append(all, transcript{name: line, line: i + 1})
		default:
			last := &all[len(all)-1]
			last.steps = append(last.steps, step{i + 1, line})
		}
	}
	return all
}

func TestTranscripts(t *testing.T) {
	for _, run := range []struct {
		name    string
		size    int // bytes per read
		handOff bool
	}{{"whole", 1 << 20, false}, {"bytewise", 1, false}, {"handoff", 1 << 20, true}} {
		for _, file := range []string{"memcache.txt", "text.txt", "thrift.txt", "leases.txt", "keys.txt", "promises.txt"} {
			for i, tr := range readTranscripts(t, filepath.Join("testdata", file)) {
				if isSample() && run.name != "whole" && i%4 != 0 {
					continue
				}
				t.Run(run.name+"/"+tr.name[:3], func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { tr.run(t, run.size, run.handOff) })
				})
			}
		}
	}
}

// player plays one transcript.
type player struct {
	t       *testing.T
	ts      *testServer
	clients map[byte]*testClient
	size    int
	ids     map[string]string // what stands for {idN} in Thrift frames, in hex; for {receiptN} elsewhere
}

func (tr *transcript) run(t *testing.T, size int, handOff bool) {
	opts := Options{MaxOpenReads: 10}
	set := engine.Settings{
		Default: engine.DefaultQueueOptions(),
		Queues:  map[string]engine.QueueOptions{}, Aliases: map[string][]string{},
	}
	steps := tr.steps
	for len(steps) > 0 && strings.HasPrefix(steps[0].text, "cfg ") {
		configure(t, steps[0].text[4:], &opts, &set)
		steps = steps[1:]
	}
	p := &player{t: t, ts: newTestServer(t, opts, set), clients: map[byte]*testClient{}, size: size,
		ids: map[string]string{}}
	p.ts.handOff, p.ts.server.inline.allowed = handOff, !handOff
	for _, s := range steps {
		if err := p.play(s.text); err != nil {
			t.Errorf("%s, line %d: %s: %v", tr.name, s.line, s.text, err)
			break
		}
	}
	for name, c := range p.clients {
		if out, _ := c.received(); len(out) > 0 && !t.Failed() {
			t.Errorf("%s: %c is sent more than is written: %q", tr.name, name, out)
		}
		if c.session.state != closed {
			c.hangUp()
		}
	}
	p.ts.stop()
}

// configure applies a cfg line.
func configure(t *testing.T, line string, opts *Options, set *engine.Settings) {
	t.Helper()
	for _, item := range strings.Split(line, "; ") {
		if name, ok := strings.CutPrefix(item, "alias "); ok {
			name, to, _ := strings.Cut(name, " -> ")
			set.Aliases[name] = strings.Split(to, ", ")
			continue
		}
		queue, pairs, isQueue := strings.Cut(strings.TrimPrefix(item, "queue "), ": ")
		if !isQueue {
			pairs = item
		}
		o := set.Default
		for _, pair := range strings.Split(pairs, ", ") {
			key, value, _ := strings.Cut(pair, "=")
			n, _ := strconv.Atoi(value)
			d, _ := time.ParseDuration(value)
			switch key {
			case "max_open_transactions":
				opts.MaxOpenReads = n
			case "status_change_grace_period":
				opts.StatusGrace = d
			case "connection_limit_refuse_writes":
				opts.RefuseWritesOver = n
			case "connection_limit_refuse_reads":
				opts.RefuseReadsOver = n
			case "expire_to_queue":
				o.ExpireTo = value
			case "max_deliveries":
				o.MaxDeliveries = int64(n)
			case "dead_letter_queue":
				o.DeadLetterQueue = value
			case "redelivery_delay":
				for i, delay := range strings.Fields(value) {
					o.RedeliveryDelay[i], _ = time.ParseDuration(delay)
				}
			case "lease":
				o.Lease = d
			case "max_delay":
				o.MaxDelay = d
			case "max_age":
				o.MaxAge = d
			case "max_keys":
				o.MaxKeys = int64(n)
			case "max_items":
				o.MaxItems = int64(n)
			case "max_memory_size":
				o.MaxMemorySize = int64(n)
			case "max_size":
				o.MaxSize = int64(n)
			case "max_item_size":
				o.MaxItemSize = int64(n)
			case "discard_old_when_full":
				o.DiscardOldWhenFull = value == "true"
			case "fanout_only":
				o.FanoutOnly = value == "true"
			default:
				t.Fatalf("cfg: unknown option %q", key)
			}
		}
		if isQueue {
			set.Queues[queue] = o
		}
	}
}

func (p *player) client(name byte) *testClient {
	if p.clients[name] == nil {
		p.clients[name] = p.ts.dial(clientProtocol(name))
	}
	return p.clients[name]
}

// clientProtocol is what a client speaks, by its letter.
func clientProtocol(name byte) protocol {
	switch name {
	case 'T', 'U':
		return textProtocol{}
	case 'H', 'I':
		return thriftProtocol{}
	}
	return memcacheProtocol{}
}

func (p *player) play(text string) error {
	if ms, ok := strings.CutPrefix(text, "wait "); ok {
		p.pass(ms)
		return nil
	}
	if text == "kill" {
		p.ts.kill()
		p.ts.start()
		clear(p.clients)
		return nil
	}
	c, rest := p.client(text[0]), text[min(3, len(text)):]
	if clientProtocol(text[0]) == (thriftProtocol{}) && strings.HasPrefix(text[1:], "> ") {
		rest = p.frames(rest)
	}
	rest = p.receipts(rest)
	switch text[1:min(3, len(text))] {
	case "> ":
		c.feed([]byte(unescape(rest)), p.size)
		return nil
	case "< ":
		if clientProtocol(text[0]) == (thriftProtocol{}) {
			return p.expectFrames(c, rest)
		}
		return p.expectReceipts(c, rest)
	case ". ":
		p.pass(rest)
		if out, ended := c.received(); len(out) > 0 || ended {
			return fmt.Errorf("got %q, closed %t", out, ended)
		}
		return nil
	case "!", "!?":
		return p.expectClose(c, rest == "" && strings.HasSuffix(text, "!?"))
	case "~":
		c.hangUp()
		return nil
	}
	return fmt.Errorf("unknown step")
}

func (p *player) pass(ms string) {
	n, err := strconv.Atoi(ms)
	if err != nil {
		p.t.Fatal(err)
	}
	<-time.After(time.Duration(n) * time.Millisecond)
	synctest.Wait()
}

// patience is how long a reply may take, in the bubble's time; see the notation.
const patience = 600 * time.Millisecond

// expect waits for output that starts with what re matches, and consumes it. It returns the groups
// of re.
func (p *player) expect(c *testClient, re *regexp.Regexp) (groups []string, err error) {
	deadline := time.Now().Add(patience)
	for {
		// Regular expressions match characters: one for each byte, so that any byte will do.
		out, ended := c.received()
		text := appendLatin1AsUTF8(nil, out)
		if groups := re.FindStringSubmatch(string(text)); groups != nil {
			c.consume(utf8.RuneCountInString(groups[0]))
			return groups[1:], nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("got %q (%x), closed %t", out, out, ended)
		}
		<-time.After(10 * time.Millisecond)
		synctest.Wait()
	}
}

func (p *player) expectClose(c *testClient, mayAnswer bool) error {
	out, ended := c.received()
	answer := string(out)
	allowed := answer == "" || mayAnswer && (answer == "CLIENT_ERROR\r\n" || answer == "SERVER_ERROR\r\n")
	if !allowed || !ended {
		return fmt.Errorf("got %q, closed %t", out, ended)
	}
	c.consume(len(out))
	return nil
}

// receiptMark is what stands for a receipt in a transcript.
var receiptMark = regexp.MustCompile(`\{receipt[0-9]\}`)

// receipts replaces what stands for receipts that have come.
func (p *player) receipts(text string) string {
	return receiptMark.ReplaceAllStringFunc(text, func(mark string) string {
		if receipt, ok := p.ids[mark]; ok {
			return receipt
		}
		return mark
	})
}

// expectReceipts is expect, and notes the receipts that come for the first time.
func (p *player) expectReceipts(c *testClient, want string) error {
	marks := receiptMark.FindAllString(want, -1)
	groups, err := p.expect(c, pattern(want))
	for i, receipt := range groups {
		p.ids[marks[i]] = receipt
	}
	return err
}

// frames turns Thrift frames in hex into escapes.
func (p *player) frames(hex string) string {
	var out strings.Builder
	for _, word := range strings.Fields(hex) {
		if strings.HasPrefix(word, "{id") {
			out.WriteString(p.ids[word])
			continue
		}
		out.WriteString(`\x` + word)
	}
	return out.String()
}

// expectFrames is expect for Thrift frames in hex, and notes the ids that come for the first time.
func (p *player) expectFrames(c *testClient, want string) error {
	var re strings.Builder
	re.WriteString("(?s)^")
	var noted []string
	for _, word := range strings.Fields(want) {
		switch id, known := p.ids[word]; {
		case known:
			re.WriteString(quote(id))
		case strings.HasPrefix(word, "{id"):
			noted = append(noted, word)
			re.WriteString("(.{8})")
		case word == "{len}":
			re.WriteString(".{4}")
		case word == "{8}":
			re.WriteString(".{8}")
		case word == "{msg}":
			re.WriteString(".{4}[[:print:]]+")
		default:
			re.WriteString(`\x` + word)
		}
	}
	groups, err := p.expect(c, regexp.MustCompile(re.String()))
	if err != nil {
		return err
	}
	for i, word := range noted {
		for _, r := range groups[i] {
			p.ids[word] += fmt.Sprintf(`\x%02x`, r)
		}
	}
	return nil
}

// pattern turns the expected bytes of a transcript into a regular expression for the start of the
// output.
func pattern(want string) *regexp.Regexp {
	var re strings.Builder
	re.WriteString("(?s)^")
	for want != "" {
		i := strings.IndexByte(want, '{')
		name, rest, found := "", "", false
		if i >= 0 {
			name, rest, found = strings.Cut(want[i+1:], "}")
		}
		if found && receiptMark.MatchString("{"+name+"}") {
			re.WriteString(quote(want[:i]) + "([1-9][0-9]*)")
			want = rest
			continue
		}
		class, known := map[string]string{"int": "[0-9]+", "num": `[0-9]+(?:\.[0-9]+)?`, "any": ".*?"}[name]
		if !found || !known {
			if i < 0 {
				i = len(want) - 1
			}
			re.WriteString(quote(want[:i+1]))
			want = want[i+1:]
			continue
		}
		re.WriteString(quote(want[:i]))
		re.WriteString(class)
		want = rest
	}
	return regexp.MustCompile(re.String())
}

func quote(s string) string {
	var q strings.Builder
	for _, b := range []byte(unescape(s)) {
		fmt.Fprintf(&q, `\x%02x`, b)
	}
	return q.String()
}

func unescape(s string) string {
	var out []byte
	for len(s) > 0 {
		switch {
		case strings.HasPrefix(s, `\r`):
			out, s = append(out, '\r'), s[2:]
		case strings.HasPrefix(s, `\n`):
			out, s = append(out, '\n'), s[2:]
		case strings.HasPrefix(s, `\x`):
			n, err := strconv.ParseUint(s[2:4], 16, 8)
			if err != nil {
				panic(err)
			}
			out, s = append(out, byte(n)), s[4:]
		default:
			out, s = append(out, s[0]), s[1:]
		}
	}
	return string(out)
}
