package pickle

// code reads the opcodes that name or call code in Python. Nothing is called
// here: a listed name goes to the caller's callback, all others are refused.
func (m *machine) code(op byte) error {
	switch op {
	case opGlobal:
		return m.global()
	case opStackGlobal:
		return m.stackGlobal()
	case opReduce:
		return m.reduce()
	case opBuild:
		return m.buildState()
	}
	return m.persistent()
}

func (m *machine) global() error {
	module, err := m.in.line(maxName)
	if err != nil {
		return err
	}
	first := string(module)
	name, err := m.in.line(maxName)
	if err != nil {
		return err
	}
	return m.named(Name{Module: first, Name: string(name)})
}

// maxName bounds the module and the name of a global.
const maxName = 1024

func (m *machine) stackGlobal() error {
	if err := m.need(2); err != nil {
		return err
	}
	at := len(m.stack) - 2
	module, name := m.stack[at], m.stack[at+1]
	if module.kind != String || name.kind != String {
		return m.fail("a global is named by a %s and a %s, not by two strings", module.kind, name.kind)
	}
	m.stack = m.stack[:at]
	return m.named(Name{Module: m.strings.At(module.Index()), Name: m.strings.At(name.Index())})
}

func (m *machine) named(name Name) error {
	for i, allowed := range m.options.Globals {
		if allowed == name {
			return m.push(Value{kind: Global, bits: uint64(i)})
		}
	}
	return m.fail("the name %.80q of module %.80q is refused: loading it could run code", name.Name, name.Module).
		WithHint("do not load this file with pickle.load")
}

// reduce is REDUCE: a callable and its arguments become a value.
func (m *machine) reduce() error {
	if err := m.need(2); err != nil {
		return err
	}
	at := len(m.stack) - 2
	callable, arguments := m.stack[at], m.stack[at+1]
	if callable.kind != Global || arguments.kind != Tuple || m.options.Reduce == nil {
		return m.fail("opcode REDUCE on a %s with a %s is refused: it can run code", callable.kind, arguments.kind)
	}
	v, err := m.options.Reduce(callable.Index(), arguments)
	return m.replace(at, v, err)
}

// buildState is BUILD: an object takes a state.
func (m *machine) buildState() error {
	if err := m.need(2); err != nil {
		return err
	}
	at := len(m.stack) - 2
	if m.options.Build == nil {
		return m.fail("opcode BUILD is refused: it can run code")
	}
	if _, err := m.settle(m.stack[at:]); err != nil {
		return err
	}
	v, err := m.options.Build(m.stack[at], m.stack[at+1])
	return m.replace(at, v, err)
}

// persistent is BINPERSID: a value that is kept outside the pickle.
func (m *machine) persistent() error {
	if err := m.need(1); err != nil {
		return err
	}
	at := len(m.stack) - 1
	if m.options.Persistent == nil {
		return m.fail("opcode BINPERSID is refused: plain data refers to nothing outside")
	}
	if _, err := m.settle(m.stack[at:]); err != nil {
		return err
	}
	v, err := m.options.Persistent(m.stack[at])
	return m.replace(at, v, err)
}

// replace puts a callback's value in the place of its operands.
func (m *machine) replace(at int, v Value, err error) error {
	if err != nil {
		return m.located(err)
	}
	for _, operand := range m.stack[at:] {
		v.depth = max(v.depth, operand.depth)
	}
	v.memo = 0
	m.stack = m.stack[:at]
	return m.push(v)
}
