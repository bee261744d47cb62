package cli

import (
	"crypto/tls"
	"fmt"
	"io"
	"os"
)

// maxSmallFile bounds a file that a command reads whole: certificates, keys, profiles. In bytes.
const maxSmallFile = 1 << 20

// ReadSmallFile returns what a file holds. It refuses one of more than 1 MiB, and so one without an end.
func ReadSmallFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSmallFile+1))
	if err == nil && len(data) > maxSmallFile {
		return nil, fmt.Errorf("%s is larger than 1 MiB", name)
	}
	return data, err
}

// ReadKeyPair reads a certificate and its key.
func ReadKeyPair(certificate, key string) (pair tls.Certificate, err error) {
	var pem [2][]byte
	for i, name := range []string{certificate, key} {
		if pem[i], err = ReadSmallFile(name); err != nil {
			break
		}
	}
	if err == nil {
		pair, err = tls.X509KeyPair(pem[0], pem[1])
	}
	if err != nil {
		return pair, Failed("read the certificate %s and its key %s: %v", certificate, key, err)
	}
	return pair, nil
}
