package docs

import (
	"go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/packages"
)

// A file leans on another if it uses a function or a package-level variable of it: an arrow. A type or a
// constant that many files name is vocabulary, and no arrow. Files are put in an order in which as few arrows
// as possible run back up; files of a circle can only be understood together.

// lean is how the files of a package lean on each other.
type lean struct{ up, circle int }

// mostUp is how many arrows a package may have that run up, and mostCircle how many files in a circle. A package in
// leaning has numbers of its own.
const mostUp, mostCircle = 8, 12

// leaning holds packages to what they have reached; those that change much have two to spare, since the order is a
// heuristic's. Where a number falls, write it here. Where one rises, move the function to the file that is already
// used, or pass a callback down.
var leaning = map[string]lean{
	"engine":                          {3, 3},
	"engine/internal/aside":           {1, 2},
	"engine/internal/item":            {1, 3},
	"engine/internal/journal":         {4, 5},
	"engine/internal/alarm":           {0, 1},
	"engine/internal/audit":           {0, 1},
	"engine/internal/dirlock":         {0, 1},
	"engine/internal/trim":            {0, 1},
	"engine/internal/idset":           {0, 1},
	"engine/internal/list":            {0, 1},
	"engine/internal/machine":         {0, 1},
	"engine/internal/queuename":       {0, 1},
	"engine/internal/record":          {0, 1},
	"engine/internal/repair":          {0, 1},
	"engine/internal/replay":          {0, 1},
	"engine/internal/retain":          {0, 1},
	"engine/internal/runs":            {0, 1},
	"engine/histogram":                {0, 1},
	"segment":                         {5, 5},
	"segment/segmenttest":             {1, 2},
	"codec/memcache":                  {0, 1},
	"codec/oldjournal":                {0, 1},
	"codec/text":                      {1, 2},
	"codec/thrift":                    {0, 1},
	"netloop":                         {5, 12},
	"netloop/admin":                   {6, 7},
	"cmd/kestrel":                     {2, 2},
	"cmd/kestrel/internal/clientcmd":  {3, 4},
	"cmd/kestrel/internal/config":     {4, 5},
	"cmd/kestrel/internal/journalcmd": {6, 6},
	"loadtest":                        {6, 8},
	"loadtest/scenario":               {0, 1},
}

// TestFloors holds every package to its numbers.
func TestFloors(t *testing.T) {
	checked := 0
	for name, arrows := range arrowsOf(t) {
		most, ok := leaning[name]
		if !ok {
			most = lean{mostUp, mostCircle}
		}
		checked++
		order := arrange(arrows)
		if up := arrows.up(order); len(up) > most.up {
			t.Errorf("%s: %d arrows between files run back up, and %d are allowed:\n%s\nfrom top to bottom: %s",
				name, len(up), most.up, strings.Join(up, "\n"), strings.Join(order, " "))
		}
		if circle := arrows.circle(); len(circle) > most.circle {
			t.Errorf("%s: %d files form a circle, and %d are allowed: %s",
				name, len(circle), most.circle, strings.Join(circle, " "))
		}
	}
	if checked < 40 {
		t.Errorf("only %d packages were checked", checked)
	}
}

// TestFloorsPicture holds the floors of engine that ARCHITECTURE.md draws to the files. Each stands on one floor, and
// calls between floors run down, but for those that the page names. The file map says of each what it is.
func TestFloorsPicture(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "ARCHITECTURE.md"), "## The floors of `engine`\n")
	section, _, _ = strings.Cut(section, "\n## ")
	parts := strings.Split(section, "```")
	if len(parts) != 3 {
		t.Fatal("ARCHITECTURE.md has no picture of the floors of engine")
	}
	arrows := arrowsOf(t)["engine"]
	floor, last := make(map[string]int), 0
	for line := range strings.Lines(strings.Trim(parts[1], "\n")) {
		if strings.Contains(line, "internal:") {
			continue // packages, all of which lie below
		}
		title, names := line[:min(floorName, len(line))], line[min(floorName, len(line)):]
		if strings.TrimSpace(title) != "" {
			last++
		}
		for file := range strings.FieldsSeq(strings.ReplaceAll(names, "·", "")) {
			if _, twice := floor[file+".go"]; twice {
				t.Errorf("%s stands on two floors", file)
			}
			if floor[file+".go"] = last; arrows[file+".go"] == nil {
				t.Errorf("the picture has a file %s, and engine does not", file)
			}
		}
	}
	for _, from := range slices.Sorted(maps.Keys(arrows)) {
		if _, there := floor[from]; !there && from != "doc.go" {
			t.Errorf("%s stands on no floor of the picture", from)
		}
		for to := range arrows[from] {
			if floor[from] > floor[to] && floor[to] > 0 && !strings.Contains(parts[0], "`"+from+"`") {
				t.Errorf("%s uses %s, which stands on a higher floor", from, to)
			}
		}
	}
	_, page, _ := strings.Cut(read(t, "ARCHITECTURE.md"), "| **`engine`** | |\n")
	for file := range arrows {
		if !strings.Contains(page, "| `"+file+"` | ") {
			t.Errorf("the file map does not say what %s is", file)
		}
	}
	for _, m := range regexp.MustCompile("`([a-z]+\\.go)`").FindAllStringSubmatch(parts[0], -1) {
		if arrows[m[1]] == nil {
			t.Errorf("the page names %s, which engine does not have", m[1])
		}
	}
}

// floorName is how many columns the name of a floor takes in the picture. The files follow; a line that
// begins with as many spaces goes on with the floor above it.
const floorName = 22

// TestFloorsControl counts arrows that were made for it.
func TestFloorsControl(t *testing.T) {
	for _, tt := range []struct {
		arrows string // from>to
		up     int
		circle int
	}{
		{"a>b b>c a>c", 0, 1},
		{"a>b b>c c>a", 1, 3},
		{"a>b b>a c>d d>c", 2, 2},
		{"a>b b>c c>d d>b", 1, 3},
		{"a>b c>d", 0, 1},
	} {
		g := make(graph)
		for arrow := range strings.FieldsSeq(tt.arrows) {
			from, to, _ := strings.Cut(arrow, ">")
			g.add(from, to)
		}
		if up := g.up(arrange(g)); len(up) != tt.up || len(g.circle()) != tt.circle {
			t.Errorf("%s: %q run up, circle %q, want %d and %d", tt.arrows, up, g.circle(), tt.up, tt.circle)
		}
	}
}

// graph has for each file those that it leans on.
type graph map[string]map[string]bool

func (g graph) add(from, to string) {
	for _, file := range []string{from, to} {
		if g[file] == nil {
			g[file] = make(map[string]bool)
		}
	}
	if from != to {
		g[from][to] = true
	}
}

// up returns the arrows from a file to one before it in order.
func (g graph) up(order []string) (up []string) {
	for i, from := range order {
		for _, to := range order[:i] {
			if g[from][to] {
				up = append(up, from+" -> "+to)
			}
		}
	}
	return up
}

// circle returns the largest set of files each of which reaches all others.
func (g graph) circle() (largest []string) {
	reach := make(map[string]map[string]bool)
	for from := range g {
		seen, todo := make(map[string]bool), []string{from}
		for len(todo) > 0 {
			last := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for to := range g[last] {
				if !seen[to] {
					seen[to] = true
					todo = append(todo, to)
				}
			}
		}
		reach[from] = seen
	}
	for _, a := range slices.Sorted(maps.Keys(g)) {
		circle := []string{a}
		for b := range g {
			if a != b && reach[a][b] && reach[b][a] {
				circle = append(circle, b)
			}
		}
		if len(circle) > len(largest) {
			slices.Sort(circle)
			largest = circle
		}
	}
	return largest
}

// arrange orders files so that few arrows run up: the heuristic of Eades, Lin and Smyth. Files that lean on none of
// those that are left go to the bottom. Files on which none of those leans go to the top. Otherwise the file with the
// most arrows out, less those in, is the next at the top.
func arrange(g graph) []string {
	left := slices.Sorted(maps.Keys(g))
	degrees := func(file string) (in, out int) {
		for _, other := range left {
			if g[other][file] {
				in++
			}
			if g[file][other] {
				out++
			}
		}
		return in, out
	}
	var top, bottom []string
	for len(left) > 0 {
		best, most, sink := 0, -len(left), false
		for i, file := range left {
			in, out := degrees(file)
			if sink = out == 0; sink || in == 0 {
				best = i
				break
			}
			if out-in > most {
				best, most = i, out-in
			}
		}
		if sink {
			bottom = append(bottom, left[best])
		} else {
			top = append(top, left[best])
		}
		left = slices.Delete(left, best, best+1)
	}
	slices.Reverse(bottom)
	return append(top, bottom...)
}

// arrowsOf returns the graph of each package of the tree, by its path in the tree.
func arrowsOf(t *testing.T) map[string]graph {
	t.Helper()
	all, err := readArrows()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// tree reads the packages of the tree, without their tests, once for all that look at calls.
var tree = sync.OnceValues(func() ([]*packages.Package, error) {
	loaded, err := packages.Load(&packages.Config{
		Dir: root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo,
	}, "./...")
	for _, p := range loaded {
		if err == nil && len(p.Errors) > 0 {
			err = p.Errors[0]
		}
	}
	return loaded, err
})

// readArrows draws the arrows of every package, once.
var readArrows = sync.OnceValues(func() (map[string]graph, error) {
	loaded, err := tree()
	if err != nil {
		return nil, err
	}
	all := make(map[string]graph)
	for _, p := range loaded {
		fileOf := func(pos token.Pos) string { return filepath.Base(p.Fset.Position(pos).Filename) }
		g := make(graph)
		for _, file := range p.Syntax {
			g.add(fileOf(file.Package), fileOf(file.Package))
		}
		for id, o := range p.TypesInfo.Uses {
			if o.Pkg() == p.Types && isArrow(o) {
				g.add(fileOf(id.Pos()), fileOf(o.Pos()))
			}
		}
		all[strings.TrimPrefix(p.PkgPath, module+"/")] = g
	}
	return all, nil
})

// isArrow reports whether a use of o makes its file lean on that of o.
func isArrow(o types.Object) bool {
	switch o := o.(type) {
	case *types.Func:
		return true
	case *types.Var:
		return !o.IsField() && o.Parent() == o.Pkg().Scope()
	}
	return false
}

// TestEngineSize tests that the engine's own folder stays below the limits of decision 0036.
func TestEngineSize(t *testing.T) {
	const maxFiles, maxLines = 40, 13_400
	files, lines := 0, 0
	for _, file := range goFiles(t) {
		if path.Dir(file) != "engine" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		files++
		lines += strings.Count(string(text), "\n")
	}
	if files > maxFiles || lines > maxLines {
		t.Errorf("engine has %d files and %d lines, want at most %d and %d: which of them need no queue, no shard and"+
			" no lock?", files, lines, maxFiles, maxLines)
	}
	if files < 20 {
		t.Errorf("found only %d files of engine", files)
	}
}
