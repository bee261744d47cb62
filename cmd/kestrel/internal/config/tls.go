package config

import (
	"github.com/kestrelmq/kestrel/netloop/certs"
)

// TLSOptions returns the keys of [tls.NAME].
func TLSOptions() []Group[certs.Files] {
	return []Group[certs.Files]{{"TLS", []Option[certs.Files]{{
		Key:  "certificate",
		Help: "PEM file; intermediate certificates come behind the server's own",
		At:   func(f *certs.Files) Value { return textValue{&f.Certificate, "path", "/etc/kestrel/server.pem"} },
	}, {
		Key:  "key",
		Help: "PEM file with the key of the certificate",
		At:   func(f *certs.Files) Value { return textValue{&f.Key, "path", "/etc/kestrel/server.key"} },
	}, {
		Key:  "client_ca",
		Help: "PEM file of the authorities that sign clients' certificates",
		At: func(f *certs.Files) Value {
			return optional(&f.ClientCA, "", textValue{&f.ClientCA, "path", "/etc/kestrel/clients.pem"})
		},
	}}}}
}

// defaultFiles are the files of a table that says nothing.
func defaultFiles() certs.Files { return certs.Files{Certificate: "server.pem", Key: "server.key"} }
