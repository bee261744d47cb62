package netloop

// readThreadDelay returns nothing: macOS does not say how long a thread has been ready to run.
func readThreadDelay(int) threadDelay { return threadDelay{} }
