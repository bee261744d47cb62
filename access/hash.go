package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// What `kestrel user hash` makes: the second choice of RFC 9106, less memory, as OWASP advises.
const (
	DefaultMemory = 19 << 10 // KiB
	DefaultPasses = 2

	saltSize = 16 // bytes
	sumSize  = 32 // bytes
)

// Bounds of hashes that are accepted, so that one in a file cannot take a machine's memory.
const (
	maxMemory = 256 << 10 // KiB
	maxPasses = 32
	maxLanes  = 16
)

// MaxPassword is how long a password may be, in bytes.
const MaxPassword = 1024

// Hash is an argon2id hash of a password. The zero Hash is none. It is comparable.
type Hash struct {
	memory uint32 // KiB
	passes uint32
	lanes  uint8
	salt   string
	sum    string
}

// IsZero reports whether h is no hash.
func (h Hash) IsZero() bool { return h == Hash{} }

// Memory is how many bytes a comparison with h takes.
func (h Hash) Memory() int64 { return int64(h.memory) << 10 }

// costsAs reports whether comparisons with h and with another hash take the same work.
func (h Hash) costsAs(other Hash) bool {
	return h.memory == other.memory && h.passes == other.passes && h.lanes == other.lanes && len(h.sum) == len(other.sum)
}

// defaultCost returns a hash without salt that costs what HashPassword makes.
func defaultCost() Hash {
	return Hash{memory: DefaultMemory, passes: DefaultPasses, lanes: 1, sum: strings.Repeat("\x00", sumSize)}
}

// decoy returns a hash that costs as much as h, and that no password has.
func decoy(h Hash) Hash {
	h.salt, h.sum = "no user has this", strings.Repeat("\x00", len(h.sum))
	return h
}

// HashPassword returns a hash of a password, with a random salt.
func HashPassword(password []byte) (Hash, error) {
	if err := checkPassword(password); err != nil {
		return Hash{}, err
	}
	salt := make([]byte, saltSize)
	rand.Read(salt) // never fails
	return hashWith(password, DefaultMemory, DefaultPasses, salt), nil
}

func hashWith(password []byte, memory, passes uint32, salt []byte) Hash {
	h := Hash{memory: memory, passes: passes, lanes: 1, salt: string(salt)}
	h.sum = string(h.derive(password, sumSize))
	return h
}

// checkPassword returns why nobody could send a password: text protocols end it at a space or a line end.
func checkPassword(password []byte) error {
	switch {
	case len(password) == 0:
		return errors.New("the password is empty")
	case len(password) > MaxPassword:
		return fmt.Errorf("the password is longer than %d bytes", MaxPassword)
	case strings.ContainsAny(string(password), " \r\n\x00"):
		return errors.New("the password has a space, a line end or a NUL, which the text protocol cannot send")
	}
	return nil
}

func (h Hash) derive(password []byte, size int) []byte {
	return argon2.IDKey(password, []byte(h.salt), h.passes, h.memory, h.lanes, uint32(size))
}

// matches reports whether h is the hash of a password. How long it takes depends on h alone.
func (h Hash) matches(password []byte) bool {
	return subtle.ConstantTimeCompare(h.derive(password, len(h.sum)), []byte(h.sum)) == 1
}

// String returns h in the form of the reference implementation of Argon2.
func (h Hash) String() string {
	if h.IsZero() {
		return ""
	}
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.memory, h.passes, h.lanes,
		b64.EncodeToString([]byte(h.salt)), b64.EncodeToString([]byte(h.sum)))
}

// ParseHash returns the hash that text, in the form of String, stands for.
func ParseHash(text string) (Hash, error) {
	bad := func(why string) (Hash, error) {
		return Hash{}, fmt.Errorf("no argon2id hash: %s; 'kestrel user hash' makes one", why)
	}
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return bad("it does not begin with $argon2id$")
	}
	if parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return bad("its version is not 19")
	}
	var h Hash
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.memory, &h.passes, &h.lanes); n != 3 || err != nil {
		return bad("its parameters are not m=…,t=…,p=…")
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	sum, err2 := base64.RawStdEncoding.DecodeString(parts[5])
	switch {
	case err != nil || err2 != nil:
		return bad("its salt or sum is not base64")
	case len(salt) < 8 || len(salt) > 64 || len(sum) < 16 || len(sum) > 64:
		return bad("its salt has not 8 to 64 bytes, or its sum not 16 to 64")
	case h.lanes < 1 || h.lanes > maxLanes || h.passes < 1 || h.passes > maxPasses:
		return bad(fmt.Sprintf("it has more than %d passes or %d lanes, or none", maxPasses, maxLanes))
	case h.memory < 8*uint32(h.lanes) || h.memory > maxMemory:
		return bad(fmt.Sprintf("it takes less than 8 KiB for each lane, or more than %d KiB", maxMemory))
	}
	h.salt, h.sum = string(salt), string(sum)
	if h.String() != text {
		return bad("it is not written as it should be")
	}
	return h, nil
}

// TokenHash is the SHA-256 of a token. A token is random, so nobody can find it by trying, and a quick hash does.
type TokenHash [sha256.Size]byte

const (
	tokenPrefix = "kestrel_"
	hashPrefix  = "sha256:"
	tokenSize   = 32 // bytes
)

// NewToken returns a random token.
func NewToken() string {
	b := make([]byte, tokenSize)
	rand.Read(b) // never fails
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(b)
}

// HashToken returns the hash of a token.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

// String returns h as ParseTokenHash takes it.
func (h TokenHash) String() string { return hashPrefix + hex.EncodeToString(h[:]) }

// ParseTokenHash returns the hash that text, sha256:HEX, stands for.
func ParseTokenHash(text string) (TokenHash, error) {
	var h TokenHash
	digits, ok := strings.CutPrefix(text, hashPrefix)
	if n, err := hex.Decode(h[:], []byte(digits[:min(len(digits), 2*len(h))])); !ok || err != nil || n != len(h) || len(digits) != 2*len(h) {
		return TokenHash{}, errors.New("no hash of a token: want sha256: and 64 hexadecimal digits; 'kestrel user token' makes one")
	}
	return h, nil
}
