package floodmark

import (
	"errors"

	"floodmark/account"
	"floodmark/enginelog"
	"floodmark/internal/source"
	"floodmark/measurement"
	"floodmark/model/hfmodel"
	"floodmark/record"
	"floodmark/snapshot"
)

// Open reads the evidence in a file, which it tells by its content: a record, a
// PyTorch memory snapshot, or a text. A file of none of these is
// [source.ErrNotThisFormat]; one of these that is malformed is a
// [*source.FormatError] with file, offset or field, and hint.
func Open(path string) (Evidence, error) {
	src, err := source.Open(path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	return OpenSource(src)
}

// OpenSource is [Open] for bytes that are not a file.
func OpenSource(src source.Source) (Evidence, error) {
	if src.Size() == 0 {
		return nil, source.InField(src.Name(), "", "is empty")
	}
	// From the narrowest format to the widest: a text can be anything.
	for _, reader := range []func(source.Source) (Evidence, error){openRecord, openStream, openSnapshot, openLog} {
		evidence, err := reader(src)
		if !errors.Is(err, source.ErrNotThisFormat) {
			return evidence, err
		}
	}
	return nil, notRecognised(src)
}

// notRecognised says what would have been, and where a model's configuration
// belongs.
func notRecognised(src source.Source) error {
	e := &source.FormatError{File: src.Name(), Offset: -1, Err: source.ErrNotThisFormat,
		Msg: "is not a file that explain reads"}
	if m, err := hfmodel.Read(src); err == nil && m != nil {
		return e.WithHint("it is the configuration of a model: floodmark estimate %s", src.Name())
	}
	return e.WithHint("it reads PyTorch memory snapshots (torch.cuda.memory._dump_snapshot), out-of-memory texts, logs of vLLM, SGLang, llama.cpp, Ollama and other engines, and records that floodmark wrote")
}

func openRecord(src source.Source) (Evidence, error) {
	document, err := record.Read(src)
	if err != nil {
		return nil, err
	}
	if m, ok := document.(*record.Measurement); ok {
		return openMeasurement(m), nil
	}
	return recordEvidence{document}, nil
}

// openStream reads the raw readings of one process, as a run that was killed or
// the lab without this program leaves them.
func openStream(src source.Source) (Evidence, error) {
	stream, err := measurement.ReadStream(src.Name(), source.Stream(src))
	if err != nil {
		return nil, err
	}
	subject := measurement.Program
	if stream.Lab != nil || stream.Impossible != nil {
		subject = measurement.Lab
	}
	return measurementEvidence{measurement.Merge(subject, []*measurement.Stream{stream}, 0)}, nil
}

func openSnapshot(src source.Source) (Evidence, error) {
	s, err := snapshot.Read(src)
	if err != nil {
		return nil, err
	}
	return newSnapshotEvidence(s), nil
}

func openLog(src source.Source) (Evidence, error) {
	l, err := enginelog.Read(src)
	if err != nil {
		return nil, err
	}
	return logEvidence{l}, nil
}

// recordEvidence is a document that was written before. It says what it said
// then; its own tool made it, so it keeps its envelope.
type recordEvidence struct{ document any }

// Accounts is none: this version does not turn a record back into accounts.
func (recordEvidence) Accounts() []account.Account { return nil }

// Record is the document itself.
func (r recordEvidence) Record(record.Tool) any { return r.document }
