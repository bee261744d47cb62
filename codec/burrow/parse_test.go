package burrow

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// parseString parses a method and a target, and returns the request, or the refusal, as text.
func parseString(method, target, form string) string {
	h := Head{Method: LookupMethod([]byte(method)), Target: []byte(target)}
	var req Request
	err := h.Parse(&req)
	if err == nil && form != "" {
		err = req.ParseForm([]byte(form))
	}
	var refused *ProtocolError
	if errors.As(err, &refused) {
		reply := string(refused.AppendReply(nil, &req, Reply{}))
		_, body, _ := strings.Cut(reply, "\r\n\r\n")
		return strings.TrimSpace(fmt.Sprintf("%d %s", refused.Status, body))
	}
	if err != nil {
		return err.Error()
	}
	return requestString(&req)
}

// requestString returns a request as text.
func requestString(req *Request) string {
	var b strings.Builder
	b.WriteString(req.Op.String())
	for _, name := range [][]byte{req.Account, req.Queue, req.ID} {
		if len(name) > 0 {
			fmt.Fprintf(&b, " %q", name)
		}
	}
	if req.HasTTL {
		fmt.Fprintf(&b, " ttl=%d", req.TTL)
	}
	if req.HasHide {
		fmt.Fprintf(&b, " hide=%d", req.Hide)
	}
	if req.Limit > 0 {
		fmt.Fprintf(&b, " limit=%d", req.Limit)
	}
	if len(req.Marker) > 0 {
		fmt.Fprintf(&b, " marker=%q", req.Marker)
	}
	if req.MatchHidden {
		b.WriteString(" hidden")
	}
	if req.Detail != req.Op.defaultDetail() {
		fmt.Fprintf(&b, " detail=%d", req.Detail)
	}
	if req.Wait > 0 {
		fmt.Fprintf(&b, " wait=%d", req.Wait)
	}
	return b.String()
}

// parseTests also seed FuzzParse.
var parseTests = []struct {
	method, target string
	want           string // as parseString has it
}{
	{"GET", "/", "versions"},
	{"GET", "/?x", "versions"},
	{"GET", "/v1.0", "get_accounts"},
	{"GET", "/v1.0?detail=all", "get_accounts detail=5"},
	{"DELETE", "/v1.0?detail=id&limit=3&marker=a", `delete_accounts limit=3 marker="a" detail=2`},
	{"GET", "/v1.0/acme?marker=resize", `get_queues "acme" marker="resize"`},
	{"DELETE", "/v1.0/acme?limit=1&detail=id", `delete_queues "acme" limit=1 detail=2`},
	{"GET", "/v1.0/acme/resize?limit=2&detail=id&marker=job-003", `get_messages "acme" "resize" limit=2 marker="job-003" detail=2`},
	{"GET", "/v1.0/acme/resize?match_hidden=TRUE&detail=metadata", `get_messages "acme" "resize" hidden detail=3`},
	{"GET", "/v1.0/acme/resize?show_hidden=true&wait=30", `get_messages "acme" "resize" hidden wait=30`},
	{"GET", "/v1.0/acme/resize?match_hidden=1", `get_messages "acme" "resize"`},
	{"POST", "/v1.0/acme/resize?limit=1&wait=60&hide=60&detail=all", `update_messages "acme" "resize" hide=60 limit=1 detail=5 wait=60`},
	{"POST", "/v1.0/acme/resize?ttl=900&match_hidden=true", `update_messages "acme" "resize" ttl=900 hidden`},
	{"DELETE", "/v1.0/acme/resize?limit=100&detail=all", `delete_messages "acme" "resize" limit=100 detail=5`},
	{"PUT", "/v1.0/acme/resize/job-002?ttl=3600&hide=45", `create_message "acme" "resize" "job-002" ttl=3600 hide=45`},
	{"PUT", "/v1.0/acme/resize/j?ttl=0&limit=x&detail=y", `create_message "acme" "resize" "j" ttl=0`},
	{"GET", "/v1.0/acme/resize/j?detail=body&wait=x", `get_message "acme" "resize" "j" detail=4`},
	{"POST", "/v1.0/acme/resize/j?hide=0", `update_message "acme" "resize" "j" hide=0`},
	{"DELETE", "/v1.0/acme/resize/j?detail=none", `delete_message "acme" "resize" "j"`},

	// Names.
	{"GET", "/v1.0/a%20b/c+d/%c3%A9;.:", `get_message "a b" "c+d" "é;.:"`},
	{"GET", "/v1.0/\xc3\xa9", `get_queues "é"`},
	{"GET", "/v1.0/%00", "400 " + errNUL.Reason},
	{"GET", "/v1.0/%ff", "400 " + errUTF8.Reason},
	{"GET", "/v1.0/\xff", "400 " + errUTF8.Reason},
	{"GET", "/v1.0/%c3%a", "400 " + errEscape.Reason},
	{"GET", "/v1.0/%", "400 " + errEscape.Reason},
	{"GET", "/v1.0/%zz", "400 " + errEscape.Reason},
	{"GET", "/v1.0/a%2Fb", "404"},
	{"GET", "/v1.0/%2e%2e", `get_queues ".."`},
	{"GET", "/v1%2e0", "get_accounts"},

	// Paths.
	{"GET", "/v9/x", "404"},
	{"GET", "/v1.0/", "404"},
	{"GET", "/v1.0/acme/", "404"},
	{"GET", "/v1.0//q", "404"},
	{"GET", "//", "404"},
	{"GET", "/v1.0/a/q/i/x", "404"},
	{"GET", "/v1.0/a/q/i/", "404"},
	{"OPTIONS", "*", "404"},
	{"BREW", "/v9", "404"},

	// Methods.
	{"PUT", "/", "405"},
	{"DELETE", "/", "405"},
	{"PUT", "/v1.0", "405"},
	{"POST", "/v1.0", "405"},
	{"POST", "/v1.0/acme", "405"},
	{"PUT", "/v1.0/acme/resize", "405"},
	{"HEAD", "/v1.0/acme/resize", "405"},
	{"OPTIONS", "/v1.0/acme/resize/x", "405"},

	// Parameters.
	{"GET", "/v1.0/a/q?limit=1&limit=2&Limit=x&&=&x", `get_messages "a" "q" limit=2`},
	{"GET", "/v1.0/a/q?limit=+7", "400 " + errLimit.Reason}, // a plus sign is a space
	{"GET", "/v1.0/a/q?limit=%2b7", `get_messages "a" "q" limit=7`},
	{"GET", "/v1.0/a/q?limit=ten", "400 " + errLimit.Reason},
	{"GET", "/v1.0/a/q?limit=0", "400 " + errLimit.Reason},
	{"GET", "/v1.0/a/q?limit=-1", "400 " + errLimit.Reason},
	{"GET", "/v1.0/a/q?limit=", "400 " + errLimit.Reason},
	{"GET", "/v1.0/a/q?limit", "400 " + errLimit.Reason},
	{"GET", "/v1.0/a/q?limit=999999999", `get_messages "a" "q" limit=999999999`},
	{"GET", "/v1.0/a/q?limit=1000000000", "400 " + errLimit.Reason},
	{"GET", "/v1.0/a/q?wait=1e3", "400 " + errWait.Reason},
	{"GET", "/v1.0/a/q?wait=0", `get_messages "a" "q"`},
	{"PUT", "/v1.0/a/q/i?ttl=-1", "400 " + errTTL.Reason},
	{"PUT", "/v1.0/a/q/i?hide=99999999999999999999", "400 " + errHide.Reason},
	{"GET", "/v1.0/a/q?marker=a%26ttl%3d5+b", `get_messages "a" "q" marker="a&ttl=5 b"`},
	{"GET", "/v1.0/a/q?marker=%ff", "400 " + errUTF8.Reason},
	{"GET", "/v1.0/a/q?marker=%f", "400 " + errEscape.Reason},
	{"GET", "/v1.0/a/q?other=%f", `get_messages "a" "q"`},
	{"GET", "/v1.0/acme/resize?detail=everything", "400 everything"},
	{"GET", "/v1.0/acme/resize?detail=%3Cb%3E", "400 <b>"},
	{"GET", "/v1.0/acme?detail=body", "400 body"},
	{"GET", "/v1.0?detail=attributes", "400 attributes"},
	{"GET", "/v1.0/a/q?detail=", "400"},
}

func TestParse(t *testing.T) {
	for _, tt := range parseTests {
		if got := parseString(tt.method, tt.target, ""); got != tt.want {
			t.Errorf("%s %s = %s, want %s", tt.method, tt.target, got, tt.want)
		}
	}
}

func TestParseForm(t *testing.T) {
	for _, tt := range []struct{ target, form, want string }{
		{"/v1.0/a/q", "ttl=33&hide=44&detail=all", `update_messages "a" "q" ttl=33 hide=44 detail=5`},
		{"/v1.0/a/q?ttl=1", "ttl=2&hide=3", `update_messages "a" "q" ttl=1 hide=3`},
		{"/v1.0/a/q?marker=%26limit=5", "limit=2", `update_messages "a" "q" limit=2 marker="&limit=5"`},
		{"/v1.0/a/q?ttl=1", "ttl=x", `update_messages "a" "q" ttl=1`},
		{"/v1.0/a/q", "ttl=x", "400 " + errTTL.Reason},
		{"/v1.0/a/q", "marker=a+b%21", `update_messages "a" "q" marker="a b!"`},
	} {
		if got := parseString("POST", tt.target, tt.form); got != tt.want {
			t.Errorf("POST %s with the form %s = %s, want %s", tt.target, tt.form, got, tt.want)
		}
	}
}

// TestParseReset checks that nothing of one request shows in the next.
func TestParseReset(t *testing.T) {
	x := []byte("x")
	req := Request{Op: OpPutMessage, Account: x, Queue: x, ID: x, TTL: 1, Hide: 1, HasTTL: true, HasHide: true,
		Limit: 1, Marker: x, MatchHidden: true, Detail: DetailAll, Wait: 1, Word: x, sent: 1, allow: "x"}
	h := Head{Method: Get, Target: []byte("/")}
	if err := h.Parse(&req); err != nil {
		t.Fatal(err)
	}
	want := Request{Op: OpVersions, Method: Get, Detail: DetailNone}
	if got, want := fmt.Sprintf("%+v", req), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("Parse into a used Request = %s, want %s", got, want)
	}
}

// TestChanges checks that operations of GET, and no others, change nothing.
func TestChanges(t *testing.T) {
	for _, at := range routes {
		for m, op := range at.ops {
			if op != 0 && op.Changes() != (Method(m) != Get) {
				t.Errorf("%v.Changes() = %v", op, op.Changes())
			}
		}
	}
}
