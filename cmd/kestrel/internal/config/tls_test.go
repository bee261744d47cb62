package config

import "testing"

func TestTLSProblems(t *testing.T) {
	const listener = "[[listener]]\nprotocol = \"text\"\naddress = \"h:1\"\ntls = \"public\"\n"
	const files = "[tls.public]\ncertificate = \"c\"\nkey = \"k\"\n"
	c := parse(t, listener+files)
	if c.NetTLS[0] != "public" || c.TLS["public"].Certificate != "c" || c.TLS["public"].ClientCA != "" {
		t.Errorf("%+v, %+v", c.NetTLS, c.TLS)
	}
	for _, tt := range []struct{ src, want string }{
		{listener, "k:4: listener.1.tls: there is no table [tls.public]"},
		{"[tls.public]\ncertificate = \"c\"\n", "k:1: tls.public: key is missing"},
		{"[tls.public]\ncertificat = \"c\"\nkey = \"k\"\n", "k:1: tls.public: certificate is missing; k:2: tls.public.certificat: " +
			"unknown key; did you mean certificate?"},
		{listener + "auth = \"certificate\"\n" + files + "[users.a]\nallow = [\"put *\"]\n",
			`k:5: listener.1.auth: auth is "certificate", and needs tls with client_ca`},
	} {
		if _, err := Parse("k", tt.src, nil); err == nil || err.Error() != tt.want {
			t.Errorf("%q:\n got %v\nwant %s", tt.src, err, tt.want)
		}
	}
}
