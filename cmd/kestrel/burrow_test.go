package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// counted are the seconds that are left of an hour in which a test has run: what a page says of the start of it.
var counted = regexp.MustCompile(`("ttl":)(?:3600|35[0-9][0-9])\b`)

// TestEndToEndBurrowDoc runs the lines of docs/BURROW.md that begin with a dollar sign, and compares what they
// print. A ttl counts down while they run.
func TestEndToEndBurrowDoc(t *testing.T) {
	for _, tool := range []string{"curl", "bash"} {
		clitest.Tool(t, tool)
	}
	page, err := os.ReadFile("../../docs/BURROW.md")
	if err != nil {
		t.Fatal(err)
	}
	p := clitest.Serve(t, "--burrow-port", "auto")
	addr := p.Logged("listening")["address"].(string) // behind those of the others
	ran := 0
	for _, block := range strings.Split(string(page), "```console\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for _, step := range strings.Split("\n"+block, "\n$ ")[1:] {
			line, want, _ := strings.Cut(step, "\n")
			script := strings.ReplaceAll(line, "localhost:8080", addr)
			out, err := exec.Command("bash", "-c", script).CombinedOutput()
			got := counted.ReplaceAllString(strings.TrimSpace(string(out)), "${1}3600")
			if err != nil || got != strings.TrimSpace(want) {
				t.Errorf("%s\nprints %q, %v\nwant   %q", line, got, err, strings.TrimSpace(want))
			}
			ran++
		}
	}
	if ran < 10 {
		t.Errorf("docs/BURROW.md has %d lines to run, want 10 or more", ran)
	}
}

// TestEndToEndBurrowKill kills a server with kill -9 between PUTs. The next one has every message that was
// acknowledged, hidden ones hidden, and none that was deleted.
func TestEndToEndBurrowKill(t *testing.T) {
	dir := t.TempDir()
	serve := func() (*clitest.Process, string) {
		p := clitest.Serve(t, "--burrow-port", "auto", "--data-dir", dir)
		return p, "http://" + p.Logged("listening")["address"].(string) + "/v1.0/a/q"
	}
	ask := func(method, url, body string) (status int, reply string, err error) {
		request, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		b, err := io.ReadAll(response.Body)
		return response.StatusCode, string(b), err
	}
	defer http.DefaultClient.CloseIdleConnections()
	there := map[string]bool{} // messages that were acknowledged: whether they are hidden
	p, url := serve()
	for round := range 3 {
		for i := 0; ; i++ {
			if i == 150 {
				go p.Cmd.Process.Kill()
			}
			id := fmt.Sprintf("m%d.%d", round, i)
			path := url + "/" + id
			hidden := i%3 == 1
			if hidden {
				path += "?hide=3600"
			}
			status, reply, err := ask("PUT", path, "body of "+id)
			if err != nil {
				break // there or not, nobody knows
			}
			if status != 201 {
				t.Fatalf("PUT = %d %s", status, reply)
			}
			there[id] = hidden
			if i%5 == 4 {
				status, reply, err := ask("DELETE", url+"/"+id, "")
				if err == nil && status != 204 {
					t.Fatalf("DELETE = %d %s", status, reply)
				}
				delete(there, id)
				if err != nil {
					break
				}
			}
		}
		p.Cmd.Wait()
		p, url = serve()
		_, all, _ := ask("GET", url+"?match_hidden=true&detail=id", "")
		_, visible, _ := ask("GET", url+"?detail=id", "")
		for id, hidden := range there {
			if quoted := strconv.Quote(id); !strings.Contains(all, quoted) || strings.Contains(visible, quoted) == hidden {
				t.Errorf("after kill %d: message %s, hidden %v, is lost or in another state", round+1, id, hidden)
			}
		}
		t.Logf("kill %d: %d messages were acknowledged and are there", round+1, len(there))
	}
}
