package engine

// steady is the present, as delays and leases see it.
func (e *Engine) steady() Time {
	now, _ := e.precise()
	return now
}
