package torch

// slab hands out values of one type and takes them back.
type slab[T any] struct {
	chunk []T
	back  []*T
}

func (s *slab[T]) take() *T {
	if n := len(s.back); n > 0 {
		x := s.back[n-1]
		s.back = s.back[:n-1]
		return x
	}
	if len(s.chunk) == 0 {
		s.chunk = make([]T, 256)
	}
	x := &s.chunk[0]
	s.chunk = s.chunk[1:]
	return x
}

func (s *slab[T]) give(x *T) { s.back = append(s.back, x) }
