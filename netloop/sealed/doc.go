// Package sealed drives crypto/tls without waiting: a handshake runs on a goroutine. Then the owner of the connection
// feeds ciphertext and reads plaintext until there is no more. It owns no socket after the handshake.
package sealed
