// Package burrow turns bytes into the requests of Burrow's HTTP protocol and replies into bytes.
//
// It is a codec and nothing more: no I/O, no clock, no state of its own. A server reads a request
// in three steps, each on its read buffer:
//
//  1. [Decoder.DecodeHead] until it no longer returns [ErrIncomplete]: one HTTP/1.1 head.
//  2. [Head.Parse]: what the head asks for in Burrow's words.
//  3. [Body.Decode] until it returns [ErrEndOfBody]: the pieces of the body, of refused requests too.
//
// It answers with the Append functions.
//
// # Guarantees
//
//   - How the bytes were split never matters. While a head is not whole nothing of it is consumed, and the pieces of a
//     body add up to the same bytes.
//   - No decoder or encoder allocates, on success or on a protocol error, but for the forms of version 1.1. The
//     encoders grow dst when its capacity does not suffice, as append does.
//   - Every slice in a decoded [Head] or [Request], and every piece of a body, lies inside src. It
//     is valid for as long as the caller leaves src alone, and must not be appended to.
//   - DecodeHead never asks its caller to hold more than [Decoder.MaxHead] bytes, and Body.Decode
//     no more than a line of [MaxChunkLine] bytes.
//   - Nothing that two readers of HTTP could read in two ways is accepted. That is two lengths, a length beside chunks,
//     a bare line feed, a folded header, and a blank before a colon. Such a head ends the connection.
//   - After a fatal [ProtocolError] the position in the stream is not to be trusted: answer and
//     close. After any other one, read the body and go on.
//
// All functions may be called from any goroutine.
//
// # Source
//
// The framing is that of RFC 9112, without obsolete forms. Paths, parameters, defaults and texts are
// those of Burrow 2011.3; where they differ on purpose, docs/PROTOCOL.md says so.
package burrow
