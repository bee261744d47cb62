package backupcmd

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestStall has a server say nothing, or begin a backup and stall. The command ends, and says why.
func TestStall(t *testing.T) {
	for _, begun := range []bool{false, true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if begun {
				io.WriteString(w, "kestrel")
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done() // the command has gone
		}))
		m := &maker{patience: 50 * time.Millisecond, admin: strings.TrimPrefix(server.URL, "http://"),
			output: filepath.Join(t.TempDir(), "backup"), out: io.Discard, said: io.Discard}
		ended := make(chan error, 1)
		go func() { ended <- m.run(t.Context()) }()
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), "the server has sent nothing for 50ms") {
				t.Errorf("begun %v: the backup ends with %v", begun, err)
			}
		case <-time.After(clitest.Patience):
			t.Errorf("begun %v: the backup goes on", begun)
		}
		server.CloseClientConnections()
		server.Close()
	}
}
