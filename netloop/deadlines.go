package netloop

// deadlines is the heap of the sessions of one loop that wait until a time, earliest first. Its
// owner is the loop.
type deadlines []*session

func (d *deadlines) add(s *session, at moment) {
	s.wait.deadline = at
	*d = append(*d, s)
	s.wait.heapIndex = len(*d) - 1
	d.up(s.wait.heapIndex)
}

// remove takes s out; it does nothing if s has no deadline.
func (d *deadlines) remove(s *session) {
	i := s.wait.heapIndex
	if i < 0 {
		return
	}
	last := len(*d) - 1
	d.swap(i, last)
	(*d)[last] = nil
	*d = (*d)[:last]
	if i < last {
		d.down(i)
		d.up(i)
	}
	s.wait.heapIndex = -1
}

// due returns a session whose deadline has come, or nil.
func (d deadlines) due(now moment) *session {
	if len(d) == 0 || d[0].wait.deadline > now {
		return nil
	}
	return d[0]
}

func (d deadlines) swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].wait.heapIndex, d[j].wait.heapIndex = i, j
}

func (d deadlines) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if d[parent].wait.deadline <= d[i].wait.deadline {
			return
		}
		d.swap(i, parent)
		i = parent
	}
}

func (d deadlines) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(d); child++ {
			if d[child].wait.deadline < d[least].wait.deadline {
				least = child
			}
		}
		if least == i {
			return
		}
		d.swap(i, least)
		i = least
	}
}
