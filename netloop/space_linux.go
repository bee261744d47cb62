package netloop

import "golang.org/x/sys/unix"

// avoidHugePages has the system give mem memory in its smallest pages: more would not be in the ledger.
func avoidHugePages(mem []byte) { unix.Madvise(mem, unix.MADV_NOHUGEPAGE) }
