// Package clientcmd has the commands that are clients. These are put, get, peek, ls, stat, top, clients, sniff, watch,
// move, redrive, drain, flush, delete, cluster and shell. They speak through package client, so they work with one
// server or many. They also work with other servers of the family, as far as those know the commands.
package clientcmd
