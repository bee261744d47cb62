package netloop

import (
	"fmt"
	"testing"

	"github.com/kestrelmq/kestrel/engine"
)

// TestWithheldWording: what needs a queue that is withheld is refused in the words of each protocol, and
// the connection goes on. The path of a file is not for clients.
func TestWithheldWording(t *testing.T) {
	err := fmt.Errorf("%w: queue %q: data/backlog/0000000001.run: no such file", engine.ErrWithheld, "q")
	reply, fatal := memcacheRefusal(nil, err)
	if got := string(reply); got != "SERVER_ERROR queue is withheld\r\n" || fatal {
		t.Errorf("memcache says %q, and ends the connection: %t", got, fatal)
	}
	if got := string(textProtocol{}.retract(nil, nil, err)); got != "-queue is withheld\n" {
		t.Errorf("text says %q", got)
	}
	if got := thriftReason(err); got != "queue is withheld" {
		t.Errorf("Thrift says %q", got)
	}
}
