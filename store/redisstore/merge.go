package redisstore

// merged is a list that is spread over the buckets, each of which has its part in the list's order.
type merged[T any] struct {
	compare func(a, b *T) int
	// first reads the beginning of every part, more what comes after an item of one. A part that answers less than n
	// has no more.
	first func(n int) ([][]*T, error)
	more  func(part int, after *T, n int) ([]*T, error)

	parts [][]*T
	ended []bool
	begun bool
}

// next returns the next item, or nil at the end. n is how many are read at once, of all parts together.
func (m *merged[T]) next(n int) (*T, error) {
	if !m.begun {
		var err error
		if m.parts, err = m.first(n); err != nil {
			return nil, err
		}
		m.begun, m.ended = true, make([]bool, len(m.parts))
		for i := range m.parts {
			m.ended[i] = len(m.parts[i]) < n
		}
	}
	best := -1
	for i, part := range m.parts {
		if len(part) > 0 && (best < 0 || m.compare(part[0], m.parts[best][0]) < 0) {
			best = i
		}
	}
	if best < 0 {
		return nil, nil
	}
	item := m.parts[best][0]
	if m.parts[best] = m.parts[best][1:]; len(m.parts[best]) == 0 && !m.ended[best] {
		list, err := m.more(best, item, n)
		if err != nil {
			return nil, err
		}
		m.parts[best], m.ended[best] = list, len(list) < n
	}
	return item, nil
}
