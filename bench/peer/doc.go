// Package peer knows the servers whose figures are compared, kestrel among them. It knows how each
// is installed and what must be created before it takes items. It starts each with settings that
// make its answer to a put mean the same as the others' of its class.
package peer
