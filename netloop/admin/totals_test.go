package admin

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
)

func compile(patterns ...string) (all []*regexp.Regexp) {
	for _, p := range patterns {
		all = append(all, regexp.MustCompile(p))
	}
	return all
}

// TestNames tests that every counter, gauge and label of the original is there, by its name.
func TestNames(t *testing.T) {
	s := defaults()
	s.Aliases = map[string][]string{"al": {"q"}, "both": {"q"}}
	tt := start(t, Options{}, netloop.Options{}, defaults())
	tt.put("both", "x") // a queue, until the alias hides it
	if err := tt.engine.Reload(s); err != nil {
		t.Fatal(err)
	}
	tt.put("al", "abc")
	tt.put("both", "abcd")
	st := tt.stats("/stats.json")
	for _, name := range strings.Fields(`cmd_get cmd_peek cmd_set cmd_monitor cmd_monitor_get get_hits
		get_misses total_items total_connections bytes_read bytes_written queue_creates queue_deletes
		queue_expires cmd_get_timeout_dropped waiters_aborted cmd_get_open_dropped finished_but_add
		q/q/total_items q/q/put_items q/q/put_bytes q/q/get_items_hit q/q/get_items_miss q/q/transactions
		q/q/canceled_transactions q/q/dead_lettered q/q/redelivered q/q/expired_items q/q/discarded q/q/total_flushes q/q/journal_rewrites
		q/q/journal_rotations q/al/put_items q/al/put_bytes`) {
		if _, ok := st.Counters[name]; !ok {
			t.Errorf("counter %s is missing", name)
		}
	}
	for _, name := range strings.Fields(`connections items bytes reserved_memory_ratio status/readable
		status/writeable q/q/items q/q/max_items q/q/bytes q/q/max_bytes q/q/journal_size q/q/mem_items
		q/q/mem_bytes q/q/age_msec q/q/waiters q/q/open_transactions q/q/oldest_open_msec q/q/create_time q/q/delayed q/q/leased q/al/create_time`) {
		if _, ok := st.Gauges[name]; !ok {
			t.Errorf("gauge %s is missing", name)
		}
	}
	if got := slices.Sorted(maps.Keys(st.Labels)); !slices.Equal(got, []string{"status", "version"}) {
		t.Errorf("labels = %v", got)
	}
	if st.Counters["q/al/put_bytes"] != 3 || st.Counters["q/both/put_bytes"] != 4 {
		t.Errorf("aliases = %v", st.Counters)
	}
	if now := float64(engine.Now() / 1000); st.Gauges["q/al/create_time"] < now-60 ||
		st.Gauges["q/al/create_time"] > now+1 {
		t.Errorf("create_time = %v, want seconds, near %v", st.Gauges["q/al/create_time"], now)
	}
	requireUnique(t, tt.get("/stats.json").body)
}

// requireUnique tests that no object in the JSON text has a key twice.
func requireUnique(t *testing.T, text string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	var inside []map[string]bool
	key := false
	for {
		token, err := d.Token()
		if err != nil {
			break
		}
		switch v := token.(type) {
		case json.Delim:
			if v == '{' {
				inside = append(inside, map[string]bool{})
				key = true
				continue
			}
			inside = inside[:len(inside)-1]
			key = true
		case string:
			if key {
				if inside[len(inside)-1][v] {
					t.Errorf("%q is there twice", v)
				}
				inside[len(inside)-1][v] = true
			}
			key = !key
		default:
			key = true
		}
	}
}

// FuzzObject tests that names of any kind leave JSON valid, and text one line for each.
func FuzzObject(f *testing.F) {
	for _, s := range []string{"", "q", "a\"b", "a\nb: 1", "é", "\x00\x7f", "</script>", "\u2028", "\xff"} {
		f.Add(s, s, int64(1))
	}
	f.Fuzz(func(t *testing.T, key, value string, n int64) {
		o := object{{key, value}, {"n", n}, {"in", object{{key, []string{value, key}}}}, {"x", 1.5}, {"b", true}}
		var b bytes.Buffer
		if err := writeJSON(&b, o); err != nil {
			t.Fatal(err)
		}
		var back map[string]any
		if err := json.Unmarshal(b.Bytes(), &back); err != nil {
			t.Fatalf("%q: %v", b.String(), err)
		}
		plain := strings.ToValidUTF8(key, "\ufffd")
		in, ok := back["in"].(map[string]any)
		if key != "in" && (!ok || len(in) != 1) || bytes.Count(b.Bytes(), []byte("\n")) != 1 {
			t.Fatalf("%q: %v", b.String(), back)
		}
		if _, ok := in[plain]; ok != (key != "in") && strings.ToValidUTF8(key, "") == key {
			t.Fatalf("%q lacks %q", b.String(), plain)
		}
		b.Reset()
		if err := writeText(&b, o); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(b.String(), "\n"); lines != 6 {
			t.Fatalf("text has %d lines, want 6: %q", lines, b.String())
		}
	})
}

func TestWriteText(t *testing.T) {
	o := object{
		{"z", "last"}, {"a", object{{"y", int64(2)}, {"x", 0.125}}}, {"list", []string{"p", "q"}},
		{"whole", 3.0}, {"yes", true}, {"a+b", int64(9223372036854775807)},
	}
	var b bytes.Buffer
	if err := writeText(&b, o); err != nil {
		t.Fatal(err)
	}
	want := "a:\n  x: 0.125\n  y: 2\na+b: 9223372036854775807\nlist: p, q\nwhole: 3\nyes: true\nz: last\n"
	if b.String() != want {
		t.Errorf("text = %q, want %q", b.String(), want)
	}
}
