package docs

import (
	"go/ast"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// maxSentence is how many words a sentence may have. A quoted piece of code counts as one word.
const maxSentence = 25

// TestSentences tests that no comment, and no page, has a sentence that is too long. Outside of tests none begins with
// "Who" or "Whoever" as its subject. It skips code, tables and headings.
func TestSentences(t *testing.T) {
	seen := 0
	check := func(file, text string) {
		ofTest := strings.HasSuffix(file, "_test.go")
		for _, s := range sentences(text) {
			seen++
			if n := len(s); n > maxSentence {
				t.Errorf("%s: a sentence has %d words, at most %d can be read at once: %.90s …", file, n, maxSentence,
					strings.Join(s, " "))
			}
			if first := s[0]; !ofTest && (first == "Who" || first == "Whoever") && !strings.ContainsAny(s[len(s)-1], "?]") {
				t.Errorf("%s: name the subject instead of %q: %.90s …", file, first, strings.Join(s, " "))
			}
		}
	}
	for _, file := range goFiles(t) {
		for _, group := range parse(t, file).Comments {
			check(file, group.Text())
		}
	}
	check("README.md", read(t, filepath.Join(root, "README.md")))
	err := filepath.WalkDir(".", func(page string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(page) == ".md" {
			check("docs/"+page, read(t, page))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 20_000 {
		t.Errorf("only %d sentences were read", seen)
	}
}

// TestSentencesOfTexts tests that no help page, log message or error has a sentence that is too long. It reads the
// literals of all code outside of tests. In a message, which does not end in a full stop, a colon or a semicolon ends
// a sentence too.
func TestSentencesOfTexts(t *testing.T) {
	seen := 0
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		ast.Inspect(parse(t, file), func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, ok := literal(e)
			for _, s := range sentences(proseOf(text)) {
				seen++
				if n := len(s); n > maxSentence {
					t.Errorf("%s: a sentence has %d words, at most %d can be read at once: %.90s …", file, n, maxSentence,
						strings.Join(s, " "))
				}
			}
			return !ok
		})
	}
	if seen < 10_000 {
		t.Errorf("only %d sentences were read", seen)
	}
}

// literal returns the text of a string literal, or of several that are added.
func literal(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, ok := literal(e.X)
		right, more := literal(e.Y)
		return left + right, e.Op == token.ADD && ok && more
	}
	return "", false
}

var (
	tableRow  = regexp.MustCompile(`\S {3}`)
	clauseEnd = regexp.MustCompile(`[:;]( |$)`)
	status    = regexp.MustCompile(`[:;]\s(\d [a-z])`)
)

// proseOf returns the sentences of a text without its tables, and nothing of an example. Each exit status is a sentence.
func proseOf(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "$ ") {
			return ""
		}
		if tableRow.MatchString(line) {
			line = "\n"
		}
		b.WriteString(line)
		if strings.HasSuffix(line, ":\n") {
			b.WriteByte('\n')
		}
	}
	if text = status.ReplaceAllString(b.String(), ". $1"); strings.HasSuffix(strings.TrimSpace(text), ".") {
		return text
	}
	return clauseEnd.ReplaceAllString(text, ". ")
}

// TestSentencesControl splits texts whose sentences are known.
func TestSentencesControl(t *testing.T) {
	long := strings.Repeat("word ", maxSentence)
	for _, tt := range []struct {
		text string
		want []int // words of each sentence
	}{
		{long + "end.", []int{maxSentence + 1}},
		{"One two.\nThree four five. Six", []int{2, 3, 1}},
		{"See e.g. this. `a b. c` is one (two!) or 1.5.", []int{3, 4, 2}},
		{"A list:\n\n- one two\n  three\n- four\n1. five six.", []int{2, 3, 1, 2}},
		{"| a | table. |\n# A heading\n```\nsome code. more\n```\n\tcode of a comment\nText [here, or there](https://a.b/c. d).",
			[]int{4}},
		{"It waits – for that – and \"ends.\" Then comes more", []int{6, 3}},
		{"It takes 5 %. So it is", []int{3, 3}},
	} {
		var got []int
		for _, s := range sentences(tt.text) {
			got = append(got, len(s))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q has sentences of %d words, want %d", tt.text, got, tt.want)
		}
	}
}

var (
	quoted     = regexp.MustCompile("`[^`]*`")
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
	listItem   = regexp.MustCompile(`^(?:[-*+]|\d+[.)])\s+`)
	shortened  = []string{"e.g.", "i.e.", "etc.", "vs."}
)

// sentences returns the words of each sentence of a comment or of a page.
func sentences(text string) (all [][]string) {
	var paragraph []string
	end := func() {
		all = append(all, split(strings.Join(paragraph, " "))...)
		paragraph = paragraph[:0]
	}
	fenced := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimLeft(line, " >")
		if strings.HasPrefix(trimmed, "```") {
			fenced = !fenced
			trimmed = ""
		}
		indented := len(paragraph) == 0 && strings.HasPrefix(line, "    ") && listItem.FindString(trimmed) == ""
		if fenced || indented || trimmed == "" || strings.HasPrefix(line, "\t") || strings.ContainsAny(trimmed[:1], "|#<") {
			end()
			continue
		}
		if item := listItem.FindString(trimmed); item != "" {
			end()
			trimmed = trimmed[len(item):]
		}
		paragraph = append(paragraph, trimmed)
	}
	end()
	return all
}

// split returns the words of the sentences of a paragraph.
func split(paragraph string) (all [][]string) {
	paragraph = linkTarget.ReplaceAllString(quoted.ReplaceAllString(paragraph, "code"), "]")
	var words []string
	for word := range strings.FieldsSeq(paragraph) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			words = append(words, word)
		}
		bare := strings.TrimRight(word, `"')]*_”`)
		if strings.ContainsAny(bare[max(len(bare)-1, 0):], ".!?") && !slices.Contains(shortened, bare) && len(words) > 0 {
			all = append(all, words)
			words = nil
		}
	}
	if len(words) > 0 {
		all = append(all, words)
	}
	return all
}
