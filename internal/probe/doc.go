// Package probe starts a program with the counters of PyTorch read around each
// of its phases, and reads the device from outside meanwhile.
//
// In: a command, the devices that it may use, and the protocol. Out: a
// measurement, written as it grows, so that a failed run leaves its last readings.
//
// It installs nothing, downloads nothing, and never takes a CPU for a GPU.
//
// # The Python file
//
// floodmark_probe.py is the side that runs inside the program: one file,
// embedded here, and usable without this program. It needs the standard library
// and, where there is something to measure, PyTorch. It has three entrances:
//
//   - injected: [WriteScript] puts it into a folder under two names,
//     floodmark_probe.py and sitecustomize.py. With that folder first in
//     PYTHONPATH every Python process of the job starts it, and a sitecustomize
//     that stood there before is still run. Python's -I, -E and -S ignore
//     PYTHONPATH or sitecustomize; the file cannot help that, and such a process
//     leaves no stream;
//   - imported: from floodmark_probe import phase, trainer_callback, install;
//   - run: python floodmark_probe.py lab --device cuda:0 …, the lab network, which
//     exits with 2 where PyTorch or the device is missing, with 1 if it failed. Its
//     lines go to FLOODMARK_PROBE_OUT, or to a new file that --output names. It is
//     not run injected: it declares its phases itself.
//
// # Settings, all of them environment variables
//
//	FLOODMARK_PROBE_OUT         path of an existing folder; each process creates its own stream there.
//	                            Not set: nothing is hooked and nothing is written
//	FLOODMARK_PROBE_RUN         any text, copied into the line "process"
//	FLOODMARK_PROBE_PHASES      0: the verifying run. No hook, no synchronize, no reset: the lines "process"
//	                            and "exit" only, the latter with the peaks since the process began
//	FLOODMARK_PROBE_STEPS       n: measure the phases of the first n optimizer steps, then only count
//	FLOODMARK_PROBE_BUDGET      bytes on each device: stop with status 3 as soon as a phase before the end of
//	                            the first step allocated more, or a device of the process reports fewer in total
//	FLOODMARK_PROBE_FIRST       save,evaluation (or one of them): a Hugging Face Trainer does these once after its
//	                            first step. No Trainer was met: a line "missing" at the end
//	FLOODMARK_PROBE_SNAPSHOT    folder: record the memory history, and dump a snapshot there when memory runs out
//	FLOODMARK_PROBE_HASH_BYTES  tensors above this many bytes a phase are not hashed; 262144 if not set
//
// # Streams
//
// A stream is a file NAME.jsonl in FLOODMARK_PROBE_OUT, created exclusively,
// one for each process image: a fork or an exec begins a new one. A forked child
// creates its own only when it has something to write. NAME begins with
// rank-00003. or process. for the eye; the line "process" decides. A rank is the
// processes with its number; most processes (launchers, loaders of data, shells)
// have no rank or no device, and a rank whose process never started has no stream.
//
// A line is one JSON object, written by one write(2) to a descriptor opened with
// O_APPEND, at once. A last line without its newline is cut off and does not
// count. Lines are at most 64 KiB. Unknown fields and types are to be ignored;
// fields of version 1 keep their meaning, and v rises if one cannot.
//
// Each line has v (1), type, t_ns (nanoseconds since 1970, may jump) and mono_ns
// (CLOCK_MONOTONIC, the same clock for all processes of one boot). Bytes are
// integers; what was not read is null, never 0.
//
//	process      first line. run, pid, ppid, forked_from (pid or null), host, boot_id (null if unreadable), rank, local_rank,
//	             world_size (null if nobody says), rank_from (the variable that gave rank, null), python, executable, argv, cwd,
//	             phases (false in the verifying run), probe (version of the file), settings {variable: text},
//	             visible {CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, SLURM_…: text or null}
//	rank         torch.distributed knows better: rank, world_size. It holds for the whole stream
//	torch        PyTorch was imported: torch, cuda, hip, cudnn (null where there is none), extensions [{name, version}]
//	hook         one a kind of phase that is hooked: name, by (what is wrapped), installed, reason. A kind without
//	             such a line is not looked for
//	device       a device got a context: device (ordinal in this process), name, uuid, pci, capability, total_bytes,
//	             free_bytes, allocator {backend, settings {variable: text}, peak_reserved}. peak_reserved is "peak", or
//	             "upper_bound" under cudaMallocAsync, where two pools' highest levels are added
//	begin        a phase begins: id (counts from 1 in the stream), parent (id of the phase around it, null), name,
//	             step, pass, seen, by, module, inputs, readings, devices [{device, start}]
//	end          the phase ended: all fields of its begin, and status, error {type, message}, duration_ns, result,
//	             devices (below), threads (true: phases of other threads were open meanwhile), truncated_tokens (cut off
//	             by fast tokenizers since the last phase; null: no tokenizer that says so was called)
//	missing      a phase that must have happened between two others was not seen: name, step, reason
//	tokens       fast tokenizers cut off tokens: truncated, sequences, calls, so far in this process; at the first, second,
//	             fourth, eighth … such call and before "exit"
//	lab          the lab's arguments: device, batch, context, width, dtype, warmup, repeats, train, blocks, seed,
//	             order [phase, …], empty_cache_between_repeats (false), process ("one")
//	impossible   the lab cannot measure: missing ("pytorch", "cuda", "device"), detail; exit status 2 follows
//	guard        the budget does not hold: budget_bytes, device, name and step of the phase (null: the card is too
//	             small), allocated_bytes, total_bytes, reason. The process then ends with 3
//	snapshot     memory ran out and a snapshot was written: path, device, bytes; or path null and reason
//	steps        FLOODMARK_PROBE_STEPS was reached; nothing more is hooked: steps
//	note         code, text: something that a reader must be told
//	uncaught     an error ends the program: status, error {type, message}, as in "end"; it may lie between phases
//	exit         the interpreter ended by itself: phases (completed), steps, devices [{device, peak, end, device_free_bytes,
//	             device_total_bytes}] since the process began; in the verifying run since the program's own
//	             last reset, if it made one. No such line: killed, exec, or os._exit
//
// A phase:
//
//   - name: a word of account.Phases, or the text that the program gave;
//   - step: in training 1 + the highest number of steps that an optimizer has made, so that 1 is the first;
//     of generate, prefill, decode, and of a forward without gradients before any training: its number, 1 is the cold
//     one; in the lab the step or the repeat. null where steps mean nothing;
//   - pass: "first", "warmup" or "repeat" in the lab, else null;
//   - seen: "declared" by the program through phase(), "hooked" around exactly this work,
//     "inferred" where the name or a boundary follows from other events; by says which wrapper or rule;
//   - module: class that ran, null if none;
//   - inputs: {tensors [{name, shape, dtype, device}], more (tensors beyond the first 64), values {name: number or text},
//     sha256 (of names, dtypes, shapes and contents, null), sha256_reason, given (text that the program gave, null)}, or null;
//   - readings: "protocol", or "none" with readings_reason: "no_context", "stream_capture", "failed" (error in reading);
//   - result: {loss (number or null), sha256 (of outputs), reason; generated_tokens of generate}, or null;
//   - status: "ok", "failed", "out_of_memory", "interrupted" (KeyboardInterrupt, SystemExit).
//
// An element of devices in "end":
//
//	device            ordinal
//	start             {allocated_bytes, reserved_bytes}; null if the context came during the phase
//	peak              {allocated_bytes, reserved_bytes}, over the whole phase with all phases inside it
//	end               {allocated_bytes, reserved_bytes}
//	peak_since        "phase" (its own reset), or "process" (the context came during the phase: the peak began with it)
//	windows           how many times the counters were read and reset within, by inner phases or by the program; 1 is none
//	device_free_bytes, device_total_bytes   cudaMemGetInfo at the checkpoint of end, of everybody on the device
//	num_alloc_retries, num_ooms             during the phase
//	reason            why a value is null
//
// All three pairs are allocated and reserved of one call of memory_stats each, so that both belong to one
// moment. The order is: name and inputs; for each device with a context synchronize; for each device read,
// then reset its peaks; run; for each device synchronize; read; keep the outputs until then; write.
//
// The lab network: blocks × (Linear(width, 4·width), GELU, Linear(4·width, width)) with bias, input
// batch × context × width from a seeded generator, AdamW and the mean squared error to a second such input
// with --train. Its phases without --train: model_load, inputs, cold_forward (pass first), warmup (one phase
// for all iterations; none if 0), warm_forward (pass repeat, step 1 to repeats). With it: model_load, inputs,
// then for step 1 (first), the warm-up steps and the repeats: forward, loss, backward, optimizer_step.
//
// # On a GPU
//
// The tests put a stand-in under PyTorch that writes down the order of the calls. What only a real
// device can show, scripts/gpu_check.sh is to run without Go:
//
//	python floodmark_probe.py lab --device cuda:0 --output NEW.jsonl [--train …]
//	    a file of the lines above, and nothing where it cannot measure (status 2). The levels at the end of
//	    model_load are those at the start of inputs, so that reading and resetting change nothing; peak ≥ start
//	    and peak ≥ end in every phase; reserved ≥ allocated in every pair; num_ooms 0
//	the same with PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync
//	    the line "device" says upper_bound
//	the same with FLOODMARK_PROBE_BUDGET=1048576
//	    status 3 and a line "guard" after the line "end" of model_load
//	any program with FLOODMARK_PROBE_OUT=FOLDER and PYTHONPATH=a folder that holds the file under both names
//	    with a graph capture in it: graph_capture has readings, the forward inside has none and the reason
//	    stream_capture; with FLOODMARK_PROBE_SNAPSHOT=FOLDER and too large a tensor: a snapshot, and
//	    the phase out_of_memory with its last readings; with FLOODMARK_PROBE_PHASES=0 the same program:
//	    its peak in "exit" is not above the highest of the phases
//
// Each phase costs two synchronizations of each device and, without them, about 0.3 ms of a core: three
// readings of the counters, one of the driver, two lines, and the hashes of inputs and outputs up to
// FLOODMARK_PROBE_HASH_BYTES. A module inside a phase costs one comparison.
package probe
