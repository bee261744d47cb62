package backupcmd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestStall has a server say nothing, or begin a backup and stall. The command ends, and says why. A signal ends it before.
// As there is a server, it does not say how to find one.
func TestStall(t *testing.T) {
	for _, tt := range []struct {
		begun    bool
		patience time.Duration
		want     string
	}{
		{false, 50 * time.Millisecond, "the server has sent nothing for 50ms"},
		{true, 50 * time.Millisecond, "the server has sent nothing for 50ms"},
		{false, time.Hour, "a signal came"},
		{true, time.Hour, "a signal came"},
	} {
		ctx, signal := context.WithCancelCause(t.Context())
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if tt.begun {
				io.WriteString(w, "kestrel")
				w.(http.Flusher).Flush()
			}
			if tt.patience == time.Hour {
				signal(errors.New("a signal came"))
			}
			<-r.Context().Done() // the command has gone
		}))
		m := &maker{patience: tt.patience, admin: strings.TrimPrefix(server.URL, "http://"),
			output: filepath.Join(t.TempDir(), "backup"), out: io.Discard, said: io.Discard}
		ended := make(chan error, 1)
		go func() { ended <- m.run(ctx) }()
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "--admin") {
				t.Errorf("begun %v: the backup ends with %v, want %s", tt.begun, err, tt.want)
			}
		case <-time.After(clitest.Patience):
			t.Errorf("begun %v: the backup goes on", tt.begun)
		}
		server.CloseClientConnections()
		server.Close()
	}
}

// TestEndToEndBackupSignal has a signal end a backup that waits for a server. It says so.
func TestEndToEndBackupSignal(t *testing.T) {
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(asked)
		<-r.Context().Done() // the command has gone
	}))
	defer server.Close()
	cmd := clitest.Command(t, "backup", "--output", "backup", "--admin", strings.TrimPrefix(server.URL, "http://"))
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitFailed || !strings.Contains(said.String(), "terminated signal received") {
		t.Errorf("the backup ends with %d and says %q", code, &said)
	}
}
