package clientcmd

import (
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndExecOutput tests that items whose commands print to a full disk go back, and that the first ends the worker.
func TestEndToEndExecOutput(t *testing.T) {
	p := clitest.Serve(t)
	clitest.Transcript(t, p.Addr, t.TempDir(), `
$ seq 3 | kestrel put work
3 items put into "work"
$ kestrel get work --exec 'cat; echo' --wait 10s > /dev/full; echo $?
kestrel: an item of "work" goes back: write /dev/stdout: no space left on device
0 items done
kestrel: write what the commands print to standard output: write /dev/stdout: no space left on device; the items of those are in "work" again
1
$ kestrel get work --all
1
2
3
`)
}

// TestEndToEndExecLeaves tests that an item is confirmed whose command ends well and leaves a process that has its output
// open.
func TestEndToEndExecLeaves(t *testing.T) {
	p := clitest.Serve(t)
	clitest.Transcript(t, p.Addr, t.TempDir(), `
$ kestrel put work one
1 item put into "work"
$ kestrel get work --count 1 --exec 'cat; echo; while ! test -e finish; do sleep 0.1; done & exit 0'; echo $?; touch finish
one
1 item done
0
$ kestrel get work
kestrel: get from "work": there is no item
`)
}
