// Package alias says which queues the aliases reach, and counts what is put to them.
package alias
