package pickle

// FirstString looks at the first bytes of what may be a pickle and gives its
// first string, when nothing but opening containers comes before it: the first
// key of a dict, or of the first dict of a list. It reports false for anything
// else, a head that ends too early included.
func FirstString(head []byte) (string, bool) {
	for len(head) > 0 {
		skip := 1
		switch head[0] {
		case opProto:
			if len(head) > 1 && head[1] > 5 {
				return "", false
			}
			skip = 2
		case opFrame:
			skip = 9
		case opBinPut:
			skip = 2
		case opLongBinPut:
			skip = 5
		case opPut:
			skip = lineLength(head)
		case opEmptyDict, opEmptyList, opMark, opMemoize, opDict, opList:
		case opShortBinUnicode:
			return prefixed(head[1:], 1)
		case opBinUnicode:
			return prefixed(head[1:], 4)
		case opUnicode:
			n := lineLength(head)
			if n > len(head) {
				return "", false
			}
			return string(rawUnicode(head[1 : n-1])), true
		default:
			return "", false
		}
		head = head[min(skip, len(head)):]
	}
	return "", false
}

// lineLength is the bytes up to and with the end of the line; more than there
// are when it does not end.
func lineLength(head []byte) int {
	for i, c := range head {
		if c == '\n' {
			return i + 1
		}
	}
	return len(head) + 1
}

// prefixed is a string after its little-endian length.
func prefixed(b []byte, width int) (string, bool) {
	if len(b) < width {
		return "", false
	}
	n := 0
	for i := width - 1; i >= 0; i-- {
		n = n<<8 | int(b[i])
	}
	if b = b[width:]; n > len(b) {
		return "", false
	}
	return string(b[:n]), true
}
