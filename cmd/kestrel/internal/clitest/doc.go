// Package clitest runs kestrel for tests: in this process with [Run], or the built program with
// [RunToEnd] and [Serve]. A package that uses it calls [Main] from its TestMain.
package clitest
