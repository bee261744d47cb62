package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndBurrowBrowser runs the worker of docs/BURROW.md in a page of Chromium. It handles what is there and what
// comes later, and leaves nothing behind. A page of another origin learns nothing.
func TestEndToEndBurrowBrowser(t *testing.T) {
	browser := clitest.Tool(t, "chromium")
	doc, err := os.ReadFile("../../docs/BURROW.md")
	if err != nil {
		t.Fatal(err)
	}
	_, worker, _ := strings.Cut(string(doc), "```js\n")
	worker, _, found := strings.Cut(worker, "```")
	if !found {
		t.Fatal("docs/BURROW.md has no worker in JavaScript")
	}

	// The page says what it has handled by a request to its own server. So the origin of the queue is another one.
	said := make(chan string, 10)
	var queue string
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			fmt.Fprintf(w, "<script>\n%s\nconst say = (what) => fetch('/said', { method: 'POST', body: what })\n"+
				"work(%q, say).catch((e) => say('it fails: ' + e.name))\n</script>", worker, queue)
		case "/said":
			body, _ := io.ReadAll(r.Body)
			said <- string(body)
		}
	})
	allowed, other := httptest.NewServer(pages), httptest.NewServer(pages)
	defer allowed.Close()
	defer other.Close()
	p := clitest.Serve(t, "--config", clitest.WriteConfig(t, fmt.Sprintf("[[listener]]\nprotocol = \"burrow\"\n"+
		"address = \"127.0.0.1:0\"\nallow_origins = [%q]\n", allowed.URL)))
	queue = "http://" + p.Logged("listening")["address"].(string) + "/v1.1/default/work"

	c, err := client.Dial(t.Context(), p.Addr, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	put := func(item string) {
		if err := c.Put(t.Context(), "work", []byte(item), client.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	hears := func(want, log string) {
		t.Helper()
		select {
		case got := <-said:
			if got != want {
				t.Fatalf("the page says %q, want %q", got, want)
			}
		case <-time.After(clitest.Patience):
			errs, _ := os.ReadFile(log)
			t.Fatalf("the page says nothing, want %q; the browser says\n%s", want, errs)
		}
	}
	put("first")
	hears("it fails: TypeError", browse(t, browser, other.URL))
	log := browse(t, browser, allowed.URL)
	hears("first", log)
	put("second") // the page waits
	hears("second", log)
	put("third")
	hears("third", log)
	// It says so before it ends the lease: of the third message that may be still to come, of the others not.
	for _, server := range c.Stats(t.Context()) {
		for _, q := range server.Queues {
			if server.Err != nil || q.Items > 1 || q.OpenReads > 1 {
				t.Errorf("the queue has %d messages, and %d are open, %v", q.Items, q.OpenReads, server.Err)
			}
		}
	}
}

// browse opens a page in a browser without a window until the test ends. It returns the file of what the browser logs.
func browse(t *testing.T, browser, url string) (log string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--proxy-server=127.0.0.1:9", "--remote-debugging-port=0", "--user-data-dir="+dir, url)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // for the processes that it starts
	errs, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	cmd.Stderr = errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		os.RemoveAll(dir) // one of its processes may still write there
	})
	return errs.Name()
}
