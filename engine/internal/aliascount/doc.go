// Package aliascount counts what is put to the aliases of queues.
package aliascount
