package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// keyTexts are TOML texts, with the line of every key in them. They seed FuzzFindKeys.
var keyTexts = []struct {
	name string
	src  string
	want string // path and line of every key
}{
	{"plain", "a = 1\n\nb = 'x' # c = 2\n# d = 3\ne=4", "a 1, b 3, e 5"},
	{"byte order mark", "\ufeffa = 1\nb = 2", "a 1, b 2"},
	{"CRLF", "a = 1\r\n[t]\r\nb = 2\r\n", "a 1, t 2, t.b 3"},
	{"tables", "[t]\na = 1\n [ t . u ] \nb = 1\n[v]\n", "t 1, t.a 2, t.u 3, t.u.b 4, v 5"},
	{"table after its child", "[t.u]\na = 1\n[t]\nb = 1\n", "t 3, t.b 4, t.u 1, t.u.a 2"},
	{"array of tables", "[[t]]\na = 1\n[[t]]\nb = 1\n", "t 1, t.1 1, t.1.a 2, t.2 3, t.2.b 4"},
	{"dotted", "a.b = 1\na . 'c d'.\"e\" = 1\n[t]\nf.g = 1",
		"a 1, a.b 1, a.\"c d\" 2, a.\"c d\".e 2, t 3, t.f 4, t.f.g 4"},
	{"quoted", "\"a.b\" = 1\n'a\"b' = 1\n\"a\\\"\\u0062\\t\" = 1\n[\"x#]\"]\n\"\" = 1",
		`"a\"b" 2, "a\"b\t" 3, "a.b" 1, "x#]" 4, "x#]"."" 5`},
	{"strings", "a = \"# \\\" b = 1\"\nb = '# \"'\nc = 1", "a 1, b 2, c 3"},
	{"long strings", "a = \"\"\"\nx = 1\n\\\"\"\" \"\"\"\"\"\n" +
		"b = '''\n\\'''''\nc = \"\"\"\"\"\"\nd = 1",
		"a 1, b 4, c 6, d 7"},
	{"arrays", "a = [ # x = 1\n 'b = 1', [1,\n 2], {c = 1},\n]\nd = 1", "a 1, a.c 3, d 5"},
	{"inline tables", "a = {b = 1, c.d = {e = '}'}, \"f\" = [\n1]}\ng = 1",
		"a 1, a.b 1, a.c 1, a.c.d 1, a.c.d.e 1, a.f 1, g 3"},
	{"inline tables of many lines", "a = {\n b = 1, # x\n c = 2,\n}\nd = 1", "a 1, a.b 2, a.c 3, d 5"},
	{"other values", "a = 1979-05-27 07:32:00\nb = -inf\nc = 1_000\nd = 0xff", "a 1, b 2, c 3, d 4"},
}

// lines is every key of n and its line, as text.
func (n *keyNode) lines(path toml.Key) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		c, at := n.children[name], append(slices.Clip(path), name)
		list = append(list, at.String()+" "+strconv.Itoa(c.line))
		list = append(list, c.lines(at)...)
	}
	return list
}

func TestFindKeys(t *testing.T) {
	for _, tt := range keyTexts {
		t.Run(tt.name, func(t *testing.T) {
			root, problem := findKeys(tt.src)
			if got := strings.Join(root.lines(nil), ", "); got != tt.want || problem != nil {
				t.Errorf("findKeys(%q)\n got %s, %v\nwant %s", tt.src, got, problem, tt.want)
			}
			checkKeys(t, tt.src)
		})
	}
}

func TestLineOf(t *testing.T) {
	root, _ := findKeys("\na = 1\n[t.u]\nb = 1\n")
	for _, tt := range []struct {
		path string
		want int
	}{
		{"a", 2}, {"t", 3}, {"t u", 3}, {"t u b", 4}, {"t u x", 3}, {"t x", 3},
		{"x", 0}, {"x b", 0}, {"a b", 2},
	} {
		if got := root.lineOf(strings.Fields(tt.path)...); got != tt.want {
			t.Errorf("lineOf(%s) = %d, want %d", tt.path, got, tt.want)
		}
	}
}

// checkKeys tests findKeys on src against the TOML parser: if that takes src, every key in it is
// found.
func checkKeys(t *testing.T, src string) {
	t.Helper()
	root, problem := findKeys(src)
	if problem != nil {
		return
	}
	top, err := decode(src)
	if err != nil {
		return
	}
	// Of [[t]], the keys of the i-th table are in the table t.i, and those of [t.u] in t.u.
	var check func(v any, nodes []*keyNode, path toml.Key)
	check = func(v any, nodes []*keyNode, path toml.Key) {
		switch v := v.(type) {
		case map[string]any:
			for key, v := range v {
				at := append(slices.Clip(path), key)
				var found []*keyNode
				for _, n := range nodes {
					if c := n.children[key]; c != nil && c.line >= 1 && c.line <= strings.Count(src, "\n")+1 {
						found = append(found, c)
					}
				}
				if len(found) == 0 {
					t.Fatalf("findKeys(%q) does not find %s", src, at)
				}
				check(v, found, at)
			}
		case []map[string]any:
			for i, v := range v {
				inside := slices.Clone(nodes)
				for _, n := range nodes {
					if c := n.children[strconv.Itoa(i+1)]; c != nil {
						inside = append(inside, c)
					}
				}
				check(v, inside, path)
			}
		case []any:
			for _, v := range v {
				check(v, nodes, path)
			}
		}
	}
	check(top, []*keyNode{root}, nil)
}

func FuzzFindKeys(f *testing.F) {
	for _, tt := range keyTexts {
		f.Add(tt.src)
	}
	f.Fuzz(func(t *testing.T, src string) { checkKeys(t, src) })
}
