package main

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// A page of help is text with headings, indented blocks and a list of flags, for terminals of 80 columns. For a man page it
// becomes Markdown, which cobra words as roff. Headings are sections, and flags are a list of terms. The lines of other
// indented blocks stay as they are.

// manSections are the headings of help that are sections of a man page, by how they begin.
var manSections = []struct{ help, man string }{
	{"Flags", "OPTIONS"},
	{"Example", "EXAMPLES"},
	{"Exit status", "EXIT STATUS"},
}

// markup is what has a meaning in Markdown.
var markup = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "`", "\\`")

// explained matches a form of a command that has an explanation behind it.
var explained = regexp.MustCompile(`\S {2,}\S`)

// useManText gives a tree of commands the text of their man pages.
func useManText(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		useManText(child)
	}
	cmd.Long = manText(cmd.Long)
}

// manText returns a page of help as Markdown. Usage that the synopsis repeats is left out.
func manText(page string) string {
	var b strings.Builder
	for block := range strings.SplitSeq(strings.Trim(page, "\n"), "\n\n") {
		heading, rest, found := strings.Cut(block, "\n")
		switch {
		case heading == "Usage:" && !explained.MatchString(rest):
			continue
		case found && strings.HasSuffix(heading, ":") && strings.HasPrefix(rest, " "):
			b.WriteString(manHeading(heading))
			block = rest
		case strings.HasPrefix(heading, "Exit status: "):
			b.WriteString(manHeading("Exit status:"))
			block = strings.TrimPrefix(block, "Exit status: ")
		case indent(heading) == 2 && !strings.Contains(b.String(), "# OPTIONS"): // a group of flags
			b.WriteString(manHeading("Flags:"))
		}
		for block != "" {
			block = manBlock(&b, block)
		}
	}
	return b.String()
}

// manHeading returns the heading of a block: a section, or a line of its own.
func manHeading(heading string) string {
	for _, s := range manSections {
		if after, found := strings.CutPrefix(heading, s.help); found {
			section := "# " + s.man + "\n\n"
			if after != ":" { // it is a sentence
				section += markup.Replace(strings.TrimSuffix(heading, ":")) + ".\n\n"
			}
			return section
		}
	}
	return markup.Replace(heading) + "\n\n"
}

// manBlock writes the first lines of a block that are of one kind, and returns the others.
func manBlock(b *strings.Builder, block string) (rest string) {
	lines := strings.Split(block, "\n")
	n := 1
	for n < len(lines) && indent(lines[n]) >= max(indent(lines[0]), 1) && (indent(lines[0]) > 0 || indent(lines[n]) == 0) &&
		!isFlag(lines[n]) {
		n++
	}
	switch first := strings.TrimSpace(lines[0]); {
	case isFlag(lines[0]):
		b.WriteString("**" + markup.Replace(first) + "**\n:   ")
		for _, line := range lines[1:n] {
			b.WriteString(markup.Replace(strings.TrimSpace(line)) + "\n")
		}
		b.WriteString("\n")
	case indent(lines[0]) == 2:
		b.WriteString("### " + markup.Replace(first) + "\n\n")
		n = 1
	case indent(lines[0]) > 0:
		b.WriteString("```\n" + strings.Join(lines[:n], "\n") + "\n```\n\n")
	default:
		for n < len(lines) && indent(lines[n]) == 0 {
			n++
		}
		b.WriteString(markup.Replace(strings.Join(lines[:n], "\n")) + "\n\n")
	}
	return strings.Join(lines[n:], "\n")
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// isFlag reports whether a line of help is a flag in a list.
func isFlag(line string) bool { return indent(line) == 4 && strings.HasPrefix(line[4:], "-") }
