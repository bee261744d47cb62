// Package overhttp is both ends of Burrow's protocol, /v1.0: [Open] makes a back end of a server, and
// [Handler] a server of a back end.
//
// # A server as a back end
//
// A [Remote] sends one request for each call, over connections that it keeps. What it reads of a list it
// decodes as it comes, so a list of any length takes little memory. A message, or a list of names, of more than 256 MiB
// is backend.ErrReplyTooLarge. A Remote asks again only if the first
// request certainly has done nothing. If the connection breaks after a change was sent, the error is
// backend.ErrUnknownOutcome: then the change has happened, or it has not.
//
// # A back end as a server
//
// A [Front] answers as a kestrel server does at its Burrow port: the same statuses, texts and lists. One set of request
// pairs tests both. With a Remote behind it, it is a proxy:
//
//	b, err := overhttp.Open("http://10.0.0.5:8080", overhttp.Options{})
//	if err != nil {
//		return err
//	}
//	return http.ListenAndServe("127.0.0.1:8080", overhttp.Handler(b))
//
// It refuses requests of /v1.1 with 501: a [backend.Backend] has no receipts and counts no deliveries.
//
// Use it as the handler of a whole server. The multiplexer of net/http would clean paths, and so change
// the names of messages.
//
// Where net/http reads the request, it words what it refuses: a broken request line or header gets its
// text and not ours. Everything behind the head is as the protocol says.
package overhttp
