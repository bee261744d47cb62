package oldjournal

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Files are the journal files of one queue.
type Files struct {
	Queue string
	Names []string // in the order in which they are replayed
}

// Skipped is a file that nothing is read from.
type Skipped struct {
	Name   string
	Reason string
	// Expected says that the original leaves such files behind and never reads them either.
	Expected bool
}

const packExt = ".pack"

// archived is a file with a number.
type archived struct {
	name   string
	number int64
	pack   bool
}

// Plan finds the queues among the names of the plain files in a directory, and the order of their
// files. Both results are sorted by name. Whether the name of a queue is legal is for the caller to
// say.
func Plan(names []string) (queues []Files, skipped []Skipped) {
	skip := func(name, reason string, expected bool) {
		skipped = append(skipped, Skipped{name, reason, expected})
	}
	current := make(map[string]bool)
	numbered := make(map[string][]archived)
	for _, name := range names {
		queue, rest, dotted := strings.Cut(name, ".")
		digits, pack := strings.CutSuffix(rest, packExt)
		number, err := strconv.ParseUint(digits, 10, 63)
		switch {
		case strings.Contains(name, "~~"):
			skip(name, "temporary: it was never finished", true)
		case queue == "":
			skip(name, "no queue name before the dot", false)
		case strings.Contains(queue, "~"):
			skip(name, "a queue name has no ~", false)
		case !dotted:
			current[queue] = true
		case err != nil:
			skip(name, "what follows the dot is not a number", false)
		default:
			numbered[queue] = append(numbered[queue], archived{name, int64(number), pack})
		}
	}
	for queue := range current {
		if _, ok := numbered[queue]; !ok {
			numbered[queue] = nil
		}
	}
	for queue, files := range numbered {
		order, replaced := inOrder(files)
		for _, f := range replaced {
			skip(f, "replaced by a packed file", true)
		}
		if current[queue] {
			order = append(order, queue)
		}
		queues = append(queues, Files{queue, order})
	}
	slices.SortFunc(queues, func(a, b Files) int { return cmp.Compare(a.Queue, b.Queue) })
	slices.SortFunc(skipped, func(a, b Skipped) int { return cmp.Compare(a.Name, b.Name) })
	return queues, skipped
}

// inOrder returns the names of files in the order of replay. It also returns those of files that the last packed one
// replaces: it holds what was left of them.
func inOrder(files []archived) (names, replaced []string) {
	packed := int64(-1)
	for _, f := range files {
		if f.pack {
			packed = max(packed, f.number)
		}
	}
	slices.SortFunc(files, func(a, b archived) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.name, b.name))
	})
	used := false // the packed file: 7 and 007 are one number
	for _, f := range files {
		isLast := f.pack && f.number == packed && !used
		if f.number > packed || isLast {
			names = append(names, f.name)
			used = used || isLast
		} else {
			replaced = append(replaced, f.name)
		}
	}
	return names, replaced
}
