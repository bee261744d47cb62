package netloop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestBurrowLong checks what is too long for one piece: a large body and a long list. Jobs take the body and word it.
// The list is sent in chunks, or to a client of HTTP/1.0 until the connection ends.
func TestBurrowLong(t *testing.T) {
	s := startServer(t, DefaultEventLoop, Options{Burrow: "127.0.0.1:0", Loops: 1}, unsynced())
	base := "http://" + s.BurrowAddr().String() + "/v1.0/a/"
	do := func(method, path string, body []byte) (status int, reply []byte, header http.Header) {
		t.Helper()
		request, err := http.NewRequest(method, base+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if reply, err = io.ReadAll(response.Body); err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, reply, response.Header
	}
	defer http.DefaultClient.CloseIdleConnections()

	large := bytes.Repeat([]byte("0123456789abcde\n"), 3<<16)
	for _, want := range []int{201, 204} {
		if status, reply, _ := do("PUT", "large/m", large); status != want {
			t.Fatalf("PUT of %d bytes = %d %s, want %d", len(large), status, reply, want)
		}
	}
	if status, reply, _ := do("GET", "large/m?detail=body", nil); status != 200 || !bytes.Equal(reply, large) {
		t.Errorf("GET of a large body = %d, %d bytes", status, len(reply))
	}
	for _, path := range []string{"large/m", "large?limit=1"} {
		_, reply, header := do("GET", path, nil)
		var one struct{ Body string }
		var list []struct{ Body string }
		if err := json.Unmarshal(reply, &one); err != nil && json.Unmarshal(reply, &list) == nil {
			one = list[0]
		}
		if one.Body != string(large) || header.Get("Content-Length") == "" {
			t.Errorf("GET %s = %d bytes, header %v", path, len(reply), header)
		}
	}

	messages, size := 2000, 4<<10
	if isSample() {
		messages, size = 300, 16<<10
	}
	body := strings.Repeat("x", size) // more than 4 MiB, all of them
	for i := range messages {
		if status, reply, _ := do("PUT", fmt.Sprintf("list/m%d", i), []byte(body)); status != 201 {
			t.Fatalf("PUT = %d %s", status, reply)
		}
	}
	check := func(what string, reply []byte, want int) {
		t.Helper()
		var list []struct{ ID, Body string }
		if err := json.Unmarshal(reply, &list); err != nil || len(list) != want {
			t.Fatalf("%s: %d messages, %v, want %d", what, len(list), err, want)
		}
		for i, m := range list {
			if m.ID != fmt.Sprintf("m%d", i) || m.Body != body {
				t.Fatalf("%s: message %d is %s with %d bytes", what, i, m.ID, len(m.Body))
			}
		}
	}
	_, reply, header := do("GET", "list", nil)
	check("chunked list", reply, messages)
	if header.Get("Content-Length") != "" {
		t.Error("the long list has a length")
	}
	_, reply, header = do("GET", "list?limit=100", nil)
	check("short list", reply, 100)
	if header.Get("Content-Length") == "" {
		t.Error("the short list has no length")
	}

	conn, err := net.Dial("tcp", s.BurrowAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /v1.0/a/list HTTP/1.0\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if reply, err = io.ReadAll(response.Body); err != nil || len(response.TransferEncoding) > 0 {
		t.Fatalf("list over HTTP/1.0: %v, %v", err, response.TransferEncoding)
	}
	check("list over HTTP/1.0", reply, messages)

	status, reply, _ := do("DELETE", "list?detail=id", nil)
	var ids []string
	if err := json.Unmarshal(reply, &ids); err != nil || status != 200 || len(ids) != messages {
		t.Errorf("DELETE of a long list = %d, %d ids, %v", status, len(ids), err)
	}
	if status, reply, _ := do("GET", "list", nil); status != 404 || string(reply) != "Queue not found" {
		t.Errorf("GET behind it = %d %s", status, reply)
	}
}
