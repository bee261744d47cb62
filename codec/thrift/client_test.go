package thrift

import "testing"

// clientTests are the calls that the test vectors lack, and those with a request header, written
// out by hand.
var clientTests = []struct {
	name   string
	encode func(dst []byte) []byte
	want   string
}{
	{
		"put",
		func(dst []byte) []byte {
			return Client{}.AppendPut(dst, 1, []byte("q"), -1, []byte("a"), nil)
		},
		`00000030 ` + putHead + queueArg + `0f 0002 0b 00000002 00000001 "a" 00000000
			08 0003 ffffffff 00`,
	},
	{
		"put nothing",
		func(dst []byte) []byte { return Client{}.AppendPut(dst, 1, nil, 0) },
		`00000026 ` + putHead + `0b 0001 00000000 0f 0002 0b 00000000 08 0003 00000000 00`,
	},
	{
		"get",
		func(dst []byte) []byte {
			return Client{}.AppendGet(dst, 1, []byte("q"), GetOptions{
				MaxItems: -1, WaitMillis: 2, AutoAbortMillis: 3,
			})
		},
		`0000002d ` + getHead + queueArg + `08 0002 ffffffff 08 0003 00000002 08 0004 00000003 00`,
	},
	{
		"confirm",
		func(dst []byte) []byte { return Client{}.AppendConfirm(dst, 1, []byte("q"), 1, -1) },
		`00000034 ` + confirmHead + queueArg + `0e 0002 0a 00000002
			0000000000000001 ffffffffffffffff 00`,
	},
	{
		"abort nothing",
		func(dst []byte) []byte { return Client{}.AppendAbort(dst, 1, []byte("q")) },
		`00000022 80010001 00000005 "abort" 00000001 ` + queueArg + `0e 0002 0a 00000000 00`,
	},
	{
		"abort with a delay",
		func(dst []byte) []byte { return Client{}.AppendReturn(dst, MethodAbort, 1, []byte("q"), 5, 7) },
		`00000035 80010001 00000005 "abort" 00000001 ` + queueArg + `0e 0002 0a 00000001 0000000000000007
			0a 0003 0000000000000005 00`,
	},
	{
		"release",
		func(dst []byte) []byte { return Client{}.AppendReturn(dst, MethodRelease, 1, []byte("q"), 0, 7) },
		`00000037 80010001 00000007 "release" 00000001 ` + queueArg + `0e 0002 0a 00000001 0000000000000007
			0a 0003 0000000000000000 00`,
	},
	{
		"reject",
		func(dst []byte) []byte { return Client{}.AppendReturn(dst, MethodReject, 1, []byte("q"), 9, 7) },
		`0000002b 80010001 00000006 "reject" 00000001 ` + queueArg + `0e 0002 0a 00000001 0000000000000007 00`,
	},
	{
		"touch",
		func(dst []byte) []byte { return Client{}.AppendTouch(dst, 1, []byte("q"), 7, 256) },
		`0000002c 80010001 00000005 "touch" 00000001 ` + queueArg + `0a 0002 0000000000000007 08 0003 00000100 00`,
	},
	{
		"set_status",
		func(dst []byte) []byte { return Client{}.AppendSetStatus(dst, 1, StatusUp) },
		`0000001e ` + statusHead + `08 0001 00000003 00`,
	},
	{
		"delete_queue",
		func(dst []byte) []byte {
			return Client{}.AppendCall(dst, MethodDeleteQueue, 1, []byte("q"))
		},
		`00000021 80010001 0000000c "delete_queue" 00000001 ` + queueArg + `00`,
	},
	{
		"get_version has no queue",
		func(dst []byte) []byte {
			return Client{}.AppendCall(dst, MethodGetVersion, 1, []byte("q"))
		},
		`00000018 ` + versionHead + `00`,
	},
	{
		"request header",
		func(dst []byte) []byte {
			return Client{Upgraded: true}.AppendCall(dst, MethodGetVersion, 1, nil)
		},
		`0000002f 0a 0001 0000000000000000 0a 0002 0000000000000000 00 ` + versionHead + `00`,
	},
	{
		"request header with a client id",
		func(dst []byte) []byte {
			client := Client{Upgraded: true, ClientID: []byte("me")}
			return client.AppendCall(dst, MethodGetVersion, 1, nil)
		},
		`0000003c 0a 0001 0000000000000000 0a 0002 0000000000000000
			0c 0006 0b 0001 00000002 "me" 00 00 ` + versionHead + `00`,
	},
	{
		"client id on a plain connection is not sent",
		func(dst []byte) []byte {
			client := Client{ClientID: []byte("me")}
			return client.AppendCall(dst, MethodGetVersion, 1, nil)
		},
		`00000018 ` + versionHead + `00`,
	},
}

func TestClientGolden(t *testing.T) {
	for _, tt := range clientTests {
		t.Run(tt.name, func(t *testing.T) {
			checkGolden(t, tt.encode, unhex(t, tt.want))
		})
	}
}

// TestClientMaxFrame checks that a reply's length is judged before the rest has arrived.
func TestClientMaxFrame(t *testing.T) {
	c := Client{MaxFrame: 17}
	for in, want := range map[string]string{
		"00 00 00 11": "thrift: incomplete need=21",
		"00 00 00 12": badReply,
		"00 00 00 00": badReply,
		"ff ff ff ff": badReply,
	} {
		if got, _ := decodeReplyString(c, unhex(t, in)); got != want {
			t.Errorf("DecodeReply(%s) = %s, want %s", in, got, want)
		}
	}
	const want = "thrift: incomplete need=2147483636"
	if got, _ := decodeReplyString(Client{}, unhex(t, "7f ff ff f0")); got != want {
		t.Errorf("DecodeReply of a large length = %s, want %s", got, want)
	}
}
