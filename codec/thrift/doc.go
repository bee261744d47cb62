// Package thrift turns bytes into the calls of Kestrel's Thrift service and replies into bytes: the
// binary protocol over framed transport, for this service only. docs/kestrel.thrift says what the
// calls mean.
//
// It is a codec and nothing more: no I/O, no clock, no state between calls. A server calls [Decoder.Decode] on its
// read buffer until that returns [ErrIncomplete]. It answers with the Append functions: each takes the [Call] that it
// answers. The reply to get can be built item by item, from [BeginItems] to [EndItems]. A client builds calls with
// the methods of [Client] and reads answers with [Client.DecodeReply].
//
// # Guarantees
//
//   - How the bytes were split never matters: what a decoder returns for a frame is the same whatever follows it in the
//     buffer. While a frame is not whole nothing is consumed.
//   - No decoder or encoder allocates, on success or on a protocol error; the encoders grow dst
//     when its capacity does not suffice, as append does.
//   - Every slice in a decoded [Request] or [Reply] lies inside src. It is valid for as long as
//     the caller leaves src alone, and must not be appended to.
//   - A frame's length is compared with a limit before anything of the frame is looked at.
//     Every length and count in it is compared with the bytes that are there. So the time to decode
//     a frame depends on its size, not on what it announces.
//   - After a fatal [ProtocolError] the peer is not to be trusted: close. Other errors are answered
//     with an exception, and the next frame is as good as any.
//
// All functions may be called from any goroutine.
//
// # Names
//
// Queue names are UTF-8 by agreement; nothing is checked here, neither that nor whether a name is
// legal. The empty name is passed on.
package thrift
