// Sim simulates whole servers, with their clients, disks and deaths, in time that passes only when
// nothing else can go on.
//
//	go run ./bench/sim -for 10m         simulate seed after seed; print and shorten one that fails
//	go run ./bench/sim -replay FILE     carry out a script again, and report how often it fails
//
// # What a seed is
//
// A seed makes a [Script]: a configuration with every limit near, and a chain of processes on one data directory. Each
// has clients of all protocols, and faults of the disk. It ends by SIGKILL, by a power cut or by SIGTERM, and the next
// one finds what it has left. Sessions run on connections in memory (netloop.Pipes). Files are on a [disk] whose every
// call takes its time, and may fail. So goroutines act in another order with every seed, as they do on real disks.
//
// # Fake time
//
// The program builds itself once more with the build tag faketime, Go's own, and runs that as a worker. There the clock
// stands still as long as any goroutine can run, and then jumps to the next timer. A disk whose sync takes a second
// costs nothing. A goroutine may wait for a mutex meanwhile, which testing/synctest would not count as waiting. With
// one processor and no preemption a seed takes nearly the same course every time. Maps, selects and the hash of queue
// names are left to chance. So the command runs a failure again ten times before it makes it shorter.
//
// # Laws
//
// A ledger knows every item, what was promised of it, and since when. A copy of what a process has left
// is opened, emptied, and compared with it; deliveries are checked as they come. What is aside in that copy,
// delayed or leased, comes when its clock is set ahead. Of another copy one bit is turned: it may be refused,
// but what it hands out must be whole.
//
//	lost, hole     what was put and acknowledged is there; of what a power cut may take, the end
//	undone, twice  what was removed stays away; nothing is delivered to two
//	open           an open read is nobody else's
//	refused, back  what was refused, or lost, does not turn up
//	bytes, place   items are whole, and where they were put
//	order          they are in order
//	expired        what has expired is not delivered
//	missed, passed a fetch gets what is in line, and the first of it: in the order of ids, and what came back first
//	early, leased  a delayed item is not delivered before it is due, nor a leased one to anybody else
//	stale, receipt a receipt holds its item until somebody else has it, and no longer, also after a crash
//	count          no recorded delivery is forgotten
//	key            no two items of a queue have the same key, and none is new beside one that has its key
//	dead letter    nothing is given up without a reason
//	left           what a client had open comes back when it has gone
//	reply          a client that has closed its sending side gets its reply
//	start, verify  every start succeeds, and the invariants of the engine hold
//	stop           SIGTERM ends without an error
//	pending        it leaves no work undone
//	health         a disk that was full, and has room, is used again
//	background     work that is repeated does not fail for ever
//	cause          no request fails because of the journal without a fault of the disk
//	idle           a server that nobody uses does nothing
//	writes         the journal is written in proportion to what is put
//	memory         the server keeps to its memory limit
//	unread         it keeps few replies for a client that reads none
//	connections    it takes in no more than it may
//	idle clients   it ends connections on which nothing is asked for
//	descriptors    it keeps to its descriptors, closes its files, and goroutines end
//	crash, hang    it does neither
package main
