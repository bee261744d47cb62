package burrow

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// TestOpenAPI holds the description of version 1.1 to the code: every route, method, parameter and status of one is
// in the other.
func TestOpenAPI(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	known := map[string]Op{"GET " + openAPIPath: OpOpenAPI}
	for _, r := range modernRoutes {
		for m, op := range r.ops {
			if op != 0 {
				known[Method(m).String()+" "+modernPrefix+r.path] = op
			}
		}
	}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			route := method + " " + path
			op, ok := known[route]
			if !ok {
				t.Errorf("the description has %s, and the code does not", route)
				continue
			}
			delete(known, route)
			if operation.OperationID != op.String() {
				t.Errorf("%s is %s, and described as %s", route, op, operation.OperationID)
			}
			var statuses []int
			for status := range operation.Responses.Map() {
				n, _ := strconv.Atoi(status)
				statuses = append(statuses, n)
			}
			if slices.Sort(statuses); !slices.Equal(statuses, op.statuses()) {
				t.Errorf("%s answers %v, and is described with %v", route, op.statuses(), statuses)
			}
			checkParameters(t, route, op, operation)
			if allowed := modernAllow(path); path != openAPIPath && !strings.Contains(allowed, method) {
				t.Errorf("%s: a 405 says %q", route, allowed)
			}
		}
	}
	for route := range known {
		t.Errorf("the code has %s, and the description does not", route)
	}
}

func modernAllow(path string) string {
	for _, r := range modernRoutes {
		if modernPrefix+r.path == path {
			return allowed(r.ops)
		}
	}
	return ""
}

// checkParameters compares the parameters of an operation with those in its description.
func checkParameters(t *testing.T, route string, op Op, operation *openapi3.Operation) {
	var want, got []string
	for _, part := range strings.Split(route, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			want = append(want, strings.TrimSuffix(name, "}"))
		}
	}
	for _, name := range []string{"ttl", "hide", "limit", "marker", "match_hidden", "detail", "wait"} {
		if op.parameters()&lookupParameter([]byte(name)) != 0 {
			want = append(want, name)
		}
	}
	for _, p := range operation.Parameters {
		got = append(got, p.Value.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s has the parameters %v, and is described with %v", route, want, got)
	}
}

// TestParseModern tests what paths of version 1.1 ask for.
func TestParseModern(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"GET /v1.1", "accounts"},
		{"GET /v1.1/a?limit=5&marker=x", "queues a limit 5 marker x"},
		{"GET /v1.1/a/q", "stats a q"},
		{"DELETE /v1.1/a/q", "delete_queue a q"},
		{"GET /v1.1/a/q/messages?match_hidden=true", "browse a q hidden"},
		{"POST /v1.1/a/q/messages", "put_batch a q"},
		{"GET /v1.1/a/messages/messages/a%20b", "look a messages a b"},
		{"DELETE /v1.1/a/q/messages/m", "remove a q m"},
		{"POST /v1.1/a/q/receive", "receive a q"},
		{"POST /v1.1/a/q/receipts", "settle a q"},
		{"POST /v1.1/a/q/receipts/17", "extend a q receipt 17"},
		{"DELETE /v1.1/a/q/receipts/18446744073709551615", "acknowledge a q receipt 18446744073709551615"},
		{"POST /v1.1/a/q/redrive", "redrive a q"},
		{"GET /openapi.json", "openapi"},
		{"POST /openapi.json", "405 GET"},
		{"PUT /v1.1/a/q", "405 GET, DELETE"},
		{"GET /v1.1/a/q/receive", "405 POST"},
		{"GET /v1.1/", "404"}, {"GET /v1.1/a/q/other", "404"}, {"GET /v1.1/a/q/messages/m/x", "404"}, {"GET /v1.10", "404"},
		{"GET /v1.0/a/q/m/x", "404"}, {"GET /openapi.json/x", "404"},
		{"GET /v1.1/a?limit=1001", "400"}, {"GET /v1.1/a?limit=0", "400"}, {"GET /v1.1/a?max=1", "400"}, {"GET /v1.1/a?wait=1", "400"},
		{"DELETE /v1.1/a/q/receipts/0", "400"}, {"DELETE /v1.1/a/q/receipts/x", "400"}, {"DELETE /v1.1/a/q/receipts/-1", "400"},
		{"DELETE /v1.1/a/q/receipts/18446744073709551616", "400"},
	} {
		var h Head
		var req Request
		src := []byte(tt.in + " HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := (Decoder{}).DecodeHead(src, &h); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := h.Parse(&req); err != nil {
			refused := err.(*ProtocolError)
			got = strings.TrimSpace(strconv.Itoa(refused.Status) + " " + refused.Allow(&req))
		} else {
			words := []string{req.Op.String(), string(req.Account), string(req.Queue), string(req.ID)}
			if req.Limit != 0 {
				words = append(words, "limit", strconv.FormatInt(req.Limit, 10))
			}
			if len(req.Marker) > 0 {
				words = append(words, "marker", string(req.Marker))
			}
			if req.MatchHidden {
				words = append(words, "hidden")
			}
			if req.Receipt != 0 {
				words = append(words, "receipt", strconv.FormatUint(req.Receipt, 10))
			}
			got = strings.Join(strings.Fields(strings.Join(words, " ")), " ")
		}
		if got != tt.want {
			t.Errorf("%s = %s, want %s", tt.in, got, tt.want)
		}
	}
}

// TestForms tests what is wrong with forms, by what the refusal says.
func TestForms(t *testing.T) {
	batch := func(form string) error { _, err := DecodeBatch([]byte(form)); return err }
	receive := func(form string) error { _, err := DecodeReceive([]byte(form)); return err }
	settle := func(form string) error { _, err := DecodeSettle([]byte(form)); return err }
	extend := func(form string) error { _, err := DecodeExtend([]byte(form)); return err }
	again := func(form string) error { _, err := DecodeRedrive([]byte(form)); return err }
	for _, tt := range []struct {
		decode     func(string) error
		form, want string // "": it is right
	}{
		{batch, `{"messages":[{"body":""},{"id":"a","body_base64":"AAE=","ttl_ms":1,"delay_ms":1000000000000}]}`, ""},
		{batch, `{"messages":[{"body":"\ud83d\ude00 \ufffd"}]}`, ""},
		{batch, ``, "messages: not a list"}, {batch, `{"messages":[]}`, "messages: not a list"}, {batch, `[]`, "not a JSON object"},
		{batch, `{"messages":[{"body":"` + strings.Repeat(`"},{"body":"`, MostMessages) + `"}]}`, "messages: not a list of 1 to 1000"},
		{batch, `{"messages":[{"body":"x"},{}]}`, "messages[1]: not one of body"},
		{batch, `{"messages":[{"body":"x","body_base64":"AA=="}]}`, "messages[0]: not one of body"},
		{batch, `{"messages":[{"body_base64":"!"}]}`, "not a JSON object of the form"},
		{batch, `{"messages":[{"body":"\ud83d"}]}`, "surrogate"},
		{batch, "{\"messages\":[{\"body\":\"\xff\"}]}", "not UTF-8"},
		{batch, `{"messages":[{"id":"@1.1","body":"x"}]}`, ".id:"}, {batch, `{"messages":[{"id":"\u0001","body":"x"}]}`, ".id:"},
		{batch, `{"messages":[{"id":"` + strings.Repeat("k", 251) + `","body":"x"}]}`, ".id:"},
		{batch, `{"messages":[{"body":"x","ttl_ms":-1}]}`, ".ttl_ms:"}, {batch, `{"messages":[{"body":"x","ttl_ms":1.5}]}`, "ttl_ms: has a JSON value"},
		{batch, `{"messages":[{"body":"x","delay_ms":1000000000001}]}`, ".delay_ms:"},
		{batch, `{"messages":[{"body":"x","priority":1}]}`, `"priority"`}, {batch, `{"messages":[{"body":"x"}]} {}`, "more than one"},
		{batch, strings.Repeat("[", 100_000), "not a JSON object"},
		{receive, ``, ""}, {receive, `{"limit":100,"wait_ms":1,"lease_ms":1}`, ""}, {receive, `{"limit":0}`, "limit:"}, {receive, `{"limit":101}`, "limit:"},
		{receive, `{"wait_ms":-1}`, "wait_ms:"}, {receive, `{"lease_ms":-1}`, "lease_ms:"}, {receive, `{"limit":"1"}`, "limit: has"},
		{settle, `{"acknowledge":["1"]}`, ""}, {settle, `{}`, "acknowledge:"}, {settle, `{"acknowledge":["x"]}`, "whole number"},
		{settle, `{"acknowledge":[1]}`, "acknowledge"}, {settle, `{"acknowledge":["0"]}`, "whole number"},
		{extend, `{"lease_ms":1}`, ""}, {extend, `{"release":true,"delay_ms":5}`, ""}, {extend, `{"reject":true}`, ""},
		{extend, `{}`, "Send lease_ms"}, {extend, `{"release":true,"reject":true}`, "Send lease_ms"}, {extend, `{"lease_ms":1,"delay_ms":1}`, "Send lease_ms"},
		{extend, `{"lease_ms":-1}`, "lease_ms:"}, {extend, `{"release":true,"delay_ms":-1}`, "delay_ms:"},
		{receive, `{"limit":1}` + strings.Repeat(" ", maxSmallForm-11), ""},
		{receive, `{"limit":1}` + strings.Repeat(" ", maxSmallForm-10), "more than 65536 bytes"},
		{extend, `{"reject":true}` + strings.Repeat(" ", maxSmallForm), "more than 65536 bytes"},
		{settle, `{"acknowledge":["1"` + strings.Repeat(`,"1"`, 20_000) + `]}`, "more than 65536 bytes"},
		{again, strings.Repeat(" ", maxSmallForm+1), "more than 65536 bytes"},
		{batch, `{"messages":null}`, "messages: not a list"}, {batch, `{"messages":{}}`, "messages: has"},
		{batch, `{"messages":[1]}`, "messages: has"}, {batch, `{"messages":[null]}`, "messages[0]: not one of body"},
		{batch, `{"messages":[{"body":"x"}],"messages":[{"body":1}]}`, "messages.body: has"},
		{again, ``, ""}, {again, `{"to":"q","limit":10000}`, ""}, {again, `{"to":"a/q"}`, "to:"}, {again, `{"limit":10001}`, "limit:"},
	} {
		switch err := tt.decode(tt.form); {
		case (err == nil) != (tt.want == ""), err != nil && !strings.Contains(err.Error(), tt.want):
			t.Errorf("%.80s: %v, want %q", tt.form, err, tt.want)
		case err != nil && err.(*ProtocolError).Fatal:
			t.Errorf("%.80s ends the connection", tt.form)
		}
	}
}

// TestBatchIsBounded tests that the memory which a batch takes, and with it the time, is in proportion to the form that
// was sent. One form has more messages than a batch may have, and one has a character that has to be looked for.
func TestBatchIsBounded(t *testing.T) {
	const replaced = `{"id":"\ufffd","body":"\ufffd"},`
	for _, tt := range []struct{ name, messages, behind string }{
		{"more than a batch has", strings.Repeat("{},", 1_000_000), ""},
		{"no messages", strings.Repeat("null,", 500_000), ""},
		{"replacement characters", strings.Repeat(replaced, MostMessages), strings.Repeat(" ", 100_000)},
	} {
		form := []byte(`{"messages":[` + strings.TrimSuffix(tt.messages, ",") + "]" + tt.behind + "}")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodeBatch(form)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(10*len(form)) {
			t.Errorf("%s: a form of %d bytes took %d, and %v", tt.name, len(form), took, err)
		}
	}
}
