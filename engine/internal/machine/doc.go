// Package machine says how much memory the process may take: that of the machine, or of its control groups.
package machine
