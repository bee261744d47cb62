// Package text turns bytes into the requests of Kestrel's text protocol and replies into bytes.
//
// It is a codec and nothing more: no I/O, no clock, no state of its own. A server calls
// [Decoder.Decode] on its read buffer until that returns [ErrIncomplete]; after a request with
// ItemsFollow it calls [Decoder.DecodeItem] instead, until that returns [ErrEndOfItems]. It answers
// with the reply constants and the Append functions. A client builds requests with [AppendPut],
// [AppendGet] and their neighbours and reads answers with [DecodeReply].
//
// # Guarantees
//
//   - How the bytes were split never matters: what a decoder returns is the same whatever follows in the buffer. While
//     a line is not whole nothing of it is consumed, unless its item is too large.
//   - No decoder or encoder allocates, on success or on a protocol error; the encoders grow dst
//     when its capacity does not suffice, as append does.
//   - Every slice in a decoded [Request] or [Reply], and every item, lies inside src. It is valid
//     for as long as the caller leaves src alone, and must not be appended to.
//   - Decode never asks its caller to hold more than [Decoder.MaxLine] bytes, and DecodeItem no more than
//     [Decoder.MaxItem] + 2. However many items a put has, they are read one at a time.
//   - After a fatal [ProtocolError] the position in the stream is not to be trusted: answer and
//     close. No item line is ever taken for a command.
//
// All functions may be called from any goroutine.
//
// # Names
//
// Queue names are the bytes of the wire, which Kestrel reads as ISO-8859-1. Whether a name is legal
// is not decided here; an empty one, which two spaces in a row make, is passed on.
package text
