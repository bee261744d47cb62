package burrow

// Texts of replies that refuse what a well-formed request asks for. Every server of the protocol uses
// them, so a client finds the same words behind a proxy.
const (
	TextStatus      = "The server's status does not allow it."
	TextQueueFull   = "The queue is full."
	TextTooLarge    = "The body is larger than the queue takes."
	TextBadName     = "The account or the queue has a name that is too long, or has characters that names cannot have."
	TextBadID       = "The id is longer than 250 bytes, holds a control character, or begins with @."
	TextHideTooLong = "hide: longer than the queue allows."
	TextHeld        = "A client of another protocol holds the message."
	TextOrigin      = "Requests of web pages are not served: there is an Origin header."
	TextHost        = "The Host header is neither an IP address nor localhost."
)

// What requests mean that do not say otherwise, and what they may ask for.
const (
	DefaultTTL     = 600 // seconds: of a PUT without ttl
	LongestWait    = 300 // seconds: of a longer wait
	ReservedPrefix = '@' // of the ids of items without a key
)
