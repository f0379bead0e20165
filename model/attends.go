package model

// Attends reports that some attention of some layer is so.
func (m *Model) Attends(is func(Attention) bool) bool {
	for _, s := range m.Stacks {
		for _, l := range s.Layers {
			for _, mixer := range l.Mixers {
				if a, ok := mixer.(Attention); ok && is(a) {
					return true
				}
			}
		}
	}
	return false
}
