// Package access says who users are and what they may do: it checks passwords, tokens and certificates, and
// knows the rights of users on queues. It knows no sockets and no protocols.
//
// Users are immutable; a reload makes new ones. A nil *User is nobody in particular, on a server or a listener
// that does not ask who its clients are, and may do everything.
package access
