package training

import "floodmark/bytesize"

// Partitioning is how each software cuts a tensor or a run of tensors into the
// parts of ranks. All sizes are elements. A part is what its rank allocates;
// padding is in it.

// chunk is the part of a rank where fully_shard cuts a tensor along its first
// dimension: as many rows as torch.chunk gives the first rank, ceil(rows/ranks),
// on every rank; own is the rows that are not padding
// (https://github.com/pytorch/pytorch/blob/v2.9.0/torch/distributed/fsdp/_fully_shard/_fsdp_param.py,
// _init_sharded_param). Worked number: [50257, 768] over 8 ranks is 6283 rows, and
// of the last rank 6276.
func chunk(shape []int64, ranks, rank int64) (padded, own []int64) {
	if len(shape) == 0 {
		shape = []int64{1}
	}
	rows := bytesize.CeilDiv(shape[0], ranks)
	mine := max(0, min(rows, shape[0]-rank*rows))
	return append([]int64{rows}, shape[1:]...), append([]int64{mine}, shape[1:]...)
}

// flatten is the elements of a flat parameter of FullyShardedDataParallel: each
// tensor begins at a multiple of align, the whole is a multiple of the ranks
// (https://github.com/pytorch/pytorch/blob/v2.9.0/torch/distributed/fsdp/_flat_param.py,
// flatten_tensors and _get_aligned_numel: 16 bytes). Worked number: tensors of 10
// and 7 elements, aligned to 8, over 2 ranks: 10 + 6 + 7 + 1 = 24.
func flatten(elements []int64, align, ranks int64) int64 {
	var total int64
	for i, n := range elements {
		if i > 0 {
			total = bytesize.CeilDiv(total, align) * align
		}
		total += n
	}
	return bytesize.CeilDiv(total, ranks) * ranks
}

// flatAlignment is the bytes to which a flat parameter aligns its tensors.
const flatAlignment = 16

// alignedRun is the elements of all parameters of a group one after another, as
// DeepSpeed's stages 1 and 2 pad them: to a multiple of two for each rank
// (https://github.com/deepspeedai/DeepSpeed/blob/v0.19.2/deepspeed/runtime/zero/stage_1_and_2.py,
// nccl_start_alignment_factor). Worked number: 1,001 elements over 4 ranks are
// 1,008, and 252 on each.
func alignedRun(elements, ranks int64) int64 {
	return bytesize.CeilDiv(elements, 2*ranks) * 2 * ranks
}

// partitioned is the part of one parameter in DeepSpeed's third stage, padded to
// a multiple of the ranks
// (https://github.com/deepspeedai/DeepSpeed/blob/v0.19.2/deepspeed/runtime/zero/partition_parameters.py,
// _partition_param). Worked number: 4,097 elements over 4 ranks are 1,025 on each.
func partitioned(elements, ranks int64) int64 { return bytesize.CeilDiv(elements, ranks) }

// subgroups cuts the parts of parameters into the groups that DeepSpeed's third
// stage steps one after another: a group ends with the parameter by which it has
// so many elements (stage3.py, _create_fp16_sub_groups). Worked number: parts of
// 6, 6, 6 and 2 in groups of 10 are 12 and 8.
func subgroups(parts []int64, most int64) []int64 {
	var groups []int64
	var open int64
	for i, n := range parts {
		open += n
		if open >= most || i == len(parts)-1 {
			groups, open = append(groups, open), 0
		}
	}
	return groups
}

// bucketed cuts parameters into the buckets of DistributedDataParallel, from the
// last to the first: a bucket is full when it reaches its bytes, and the first has
// fewer, so that reduction begins early
// (https://github.com/pytorch/pytorch/blob/v2.9.0/torch/csrc/distributed/c10d/reducer.cpp,
// compute_bucket_assignment_by_size). Sizes are bytes.
func bucketed(sizes []int64, first, most int64) []int64 {
	var buckets []int64
	var open int64
	limit := first
	for i := len(sizes) - 1; i >= 0; i-- {
		open += sizes[i]
		if open >= limit || i == 0 {
			buckets, open, limit = append(buckets, open), 0, most
		}
	}
	return buckets
}
