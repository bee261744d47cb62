package main

import "testing"

// TestManText words a page of help with everything that such a page has.
func TestManText(t *testing.T) {
	const page = `Usage:
    kestrel try THING [flags]
    kestrel try --all

Tries * and _, on
two lines:
    first  what comes first
    last   what comes last

Flags override the file:
    --all, -a
        try [all]
        of them
    --most NUMBER (default 3)
        at most

  In common
    --user NAME
        who

With - it goes on:
    $ kestrel try -

Example:
    $ kestrel try this
    it works

Exit status: 0 if it works;
1 if not.
`
	const want = `Tries \* and \_, on
two lines:

` + "```" + `
    first  what comes first
    last   what comes last
` + "```" + `

# OPTIONS

Flags override the file.

**--all, -a**
:   try \[all]
of them

**--most NUMBER (default 3)**
:   at most

### In common

**--user NAME**
:   who

With - it goes on:

` + "```" + `
    $ kestrel try -
` + "```" + `

# EXAMPLES

` + "```" + `
    $ kestrel try this
    it works
` + "```" + `

# EXIT STATUS

0 if it works;
1 if not.

`
	if got := manText(page); got != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
}
