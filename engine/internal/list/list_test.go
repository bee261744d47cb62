package list

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type value struct {
	n    int
	link Link[value]
}

// forward and backward list the numbers of all values, from each end.
func forward(l *List[value]) (all []int) {
	for v := l.First(); v != nil; v = v.link.Next() {
		all = append(all, v.n)
	}
	return all
}

func backward(l *List[value]) (all []int) {
	for v := l.Last(); v != nil; v = v.link.Prev() {
		all = append(all, v.n)
	}
	return all
}

// TestList does what a slice does, in a random order, and compares.
func TestList(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 0))
	var l List[value]
	var want []*value
	for step := range 2000 {
		switch n := r.IntN(4); {
		case n == 0:
			v := &value{n: step}
			l.PushBack(&v.link, v)
			want = append(want, v)
		case n == 1:
			v := &value{n: step}
			l.PushFront(&v.link, v)
			want = slices.Insert(want, 0, v)
		case len(want) > 0:
			i := r.IntN(len(want))
			v := want[i]
			l.Remove(&v.link)
			if v.link != (Link[value]{}) {
				t.Fatalf("seed %d, step %d: the link of a removed value is %+v", seed, step, v.link)
			}
			want = slices.Delete(want, i, i+1)
		}
		var numbers []int
		for _, v := range want {
			numbers = append(numbers, v.n)
		}
		got, back := forward(&l), backward(&l)
		slices.Reverse(back)
		if !slices.Equal(got, numbers) || !slices.Equal(back, numbers) || l.Len() != int64(len(numbers)) {
			t.Fatalf("seed %d, step %d: list of %d is %v, backwards %v, want %v", seed, step, l.Len(), got, back, numbers)
		}
	}
}

// TestStack pushes values and pops them, in a random order, and compares with a slice.
func TestStack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	var s Stack[value]
	var want []*value
	for step := range 2000 {
		if r.IntN(2) == 0 {
			v := &value{n: step}
			s.Push(&v.link, v)
			want = append(want, v)
			continue
		}
		var top *value
		if n := len(want); n > 0 {
			top, want = want[n-1], want[:n-1]
		}
		if got := s.Top(); got != top {
			t.Fatalf("step %d: Top = %v, want %v", step, got, top)
		}
		if got := s.Pop(); got != top || got != nil && got.link != (Link[value]{}) {
			t.Fatalf("step %d: Pop = %+v, want %v with a zero link", step, got, top)
		}
	}
}
