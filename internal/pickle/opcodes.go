package pickle

// The opcodes of protocols 0 to 5 that this package reads. Names and numbers
// are those of CPython's pickletools.
const (
	opMark       = '('
	opStop       = '.'
	opPop        = '0'
	opFloat      = 'F'
	opInt        = 'I'
	opBinInt     = 'J'
	opBinInt1    = 'K'
	opLong       = 'L'
	opBinInt2    = 'M'
	opNone       = 'N'
	opBinPersID  = 'Q'
	opReduce     = 'R'
	opUnicode    = 'V'
	opBinUnicode = 'X'
	opAppend     = 'a'
	opBuild      = 'b'
	opGlobal     = 'c'
	opDict       = 'd'
	opEmptyDict  = '}'
	opAppends    = 'e'
	opGet        = 'g'
	opBinGet     = 'h'
	opLongBinGet = 'j'
	opList       = 'l'
	opEmptyList  = ']'
	opPut        = 'p'
	opBinPut     = 'q'
	opLongBinPut = 'r'
	opSetItem    = 's'
	opTuple      = 't'
	opEmptyTuple = ')'
	opSetItems   = 'u'
	opBinFloat   = 'G'

	opProto           = 0x80
	opTuple1          = 0x85
	opTuple2          = 0x86
	opTuple3          = 0x87
	opNewTrue         = 0x88
	opNewFalse        = 0x89
	opLong1           = 0x8a
	opLong4           = 0x8b
	opShortBinUnicode = 0x8c
	opBinUnicode8     = 0x8d
	opStackGlobal     = 0x93
	opMemoize         = 0x94
	opFrame           = 0x95
)

// refused names an opcode that exists and is never read, and why.
func refused(op byte) (name, why string) {
	const runs, bytes, object = "it can run code", "it makes bytes, which plain data has none of", "it makes or changes an object in a way that plain data does not need"
	switch op {
	case 'o':
		return "OBJ", runs
	case 'i':
		return "INST", runs
	case 0x81:
		return "NEWOBJ", runs
	case 0x92:
		return "NEWOBJ_EX", runs
	case 0x82:
		return "EXT1", runs
	case 0x83:
		return "EXT2", runs
	case 0x84:
		return "EXT4", runs
	case 'P':
		return "PERSID", runs
	case 'S':
		return "STRING", bytes
	case 'T':
		return "BINSTRING", bytes
	case 'U':
		return "SHORT_BINSTRING", bytes
	case 'B':
		return "BINBYTES", bytes
	case 'C':
		return "SHORT_BINBYTES", bytes
	case 0x8e:
		return "BINBYTES8", bytes
	case 0x96:
		return "BYTEARRAY8", bytes
	case 0x97:
		return "NEXT_BUFFER", bytes
	case 0x98:
		return "READONLY_BUFFER", bytes
	case '1':
		return "POP_MARK", object
	case '2':
		return "DUP", object
	case 0x8f:
		return "EMPTY_SET", object
	case 0x90:
		return "ADDITEMS", object
	case 0x91:
		return "FROZENSET", object
	}
	return "", ""
}
