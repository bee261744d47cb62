// Package memcache turns bytes into Kestrel's memcache requests and replies into bytes.
//
// It is a codec and nothing more: no I/O, no clock, no state between calls. A server calls [Decoder.Decode] on its read
// buffer until that returns [ErrIncomplete], and answers with the reply constants and the Append functions. A client
// builds requests with [AppendSet], [AppendGet] and their neighbours, and reads answers with [DecodeReply].
//
// # Guarantees
//
//   - How the bytes were split never matters: what a decoder returns for a request is the same whatever follows it in
//     the buffer. While a request is not whole nothing is consumed.
//   - No decoder or encoder allocates, on success or on a protocol error; the encoders grow dst
//     when its capacity does not suffice, as append does.
//   - Every slice in a decoded [Request] or [Reply] lies inside src. It is valid for as long as
//     the caller leaves src alone, and must not be appended to.
//   - Every length is compared with a limit before it is used. Decode never asks its caller to
//     hold more than [Decoder.MaxLine] + [Decoder.MaxItem] + 2 bytes.
//   - After a fatal [ProtocolError] the position in the stream is not to be trusted: answer and
//     close. No byte of a refused body is ever taken for a command.
//
// All functions may be called from any goroutine.
//
// # Names
//
// Queue names are the bytes of the wire, which Kestrel reads as ISO-8859-1. Whether a name is legal
// is not decided here, with the exceptions the protocol makes: see [Decoder.Decode].
package memcache
