#!/bin/sh
# calib-readme.sh - writes platforms/calib/README.md: the parameters as the program knows them, and every
# value that was fitted, with its unit and source. And platforms/software/README.md: the fields of software.
set -eu
readme=platforms/calib/README.md
software_readme=platforms/software/README.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# kind, entry, parameter, value, unit, source of everything whose source names a fit; tab-separated.
fitted_values() {
	for f in platforms/calib/*.json; do
		awk -v entry="$(basename "$f" .json)" -v kind=device '
		/"kind": "link"/ { kind = "link" }
		/"kind": "link"/ && match($0, /"name": "[^"]*"/) { entry = substr($0, RSTART + 9, RLENGTH - 10) }
		/"value":/ && /"source": "[^"]*(fit|values of the)/ {
			match($0, /"[a-zA-Z0-9_]+": *\{/); name = substr($0, RSTART + 1, RLENGTH - 1)
			sub(/".*/, "", name)
			match($0, /"value": [^,]*/); value = substr($0, RSTART + 9, RLENGTH - 9)
			match($0, /"unit": "[^"]*/); unit = substr($0, RSTART + 9, RLENGTH - 9)
			match($0, /"source": "[^"]*/); source = substr($0, RSTART + 11, RLENGTH - 11)
			printf "%s\t%s\t%s\t%s\t%s\t%s\n", kind, entry, name, value, unit, source
		}' "$f"
	done
}

# What an entry says itself ("entry parameter"), and whom it inherits from ("entry parent"); tab-separated.
given_values() {
	for f in platforms/calib/*.json; do
		awk -v entry="$(basename "$f" .json)" '
		BEGIN { kind = "device" }
		/"kind": "link"/ && match($0, /"name": "[^"]*"/) { kind = "link"; entry = substr($0, RSTART + 9, RLENGTH - 10) }
		/"inherits": "/ && match($0, /"inherits": "[^"]*/) {
			printf "inherits\t%s\t%s\t%s\n", entry, substr($0, RSTART + 13, RLENGTH - 13), kind }
		/"value":/ && match($0, /"[a-zA-Z0-9_]+": *\{/) {
			name = substr($0, RSTART + 1, RLENGTH - 1); sub(/".*/, "", name)
			printf "given\t%s\t%s\n", entry, name }' "$f"
	done
}

# Records of `maquette fit`: results/accuracy/fit-NAME/.
left_out() {
	for d in results/accuracy/fit-*/; do
		[ -f "$d/tables.csv" ] || continue
		printf '\n### Left out one after the other: %s\n\n' "$(basename "$d" | sed 's/^fit-//')"
		cat "$d/about.md"
		printf '\n| parameter | fitted | unit | 95 %% interval | shipped |\n| --- | --- | --- | --- | --- |\n'
		awk -F, 'NR > 1 { printf "| `%s` | %.3g | %s | %.3g to %.3g | %.3g |\n", $1, $2, $3, $4, $5, $6 }' "$d/parameters.csv"
		printf '\n| table | rows | shipped, mean / median %% | fitted | left out |\n| --- | --- | --- | --- | --- |\n'
		awk -F, 'NR > 1 { printf "| %s | %d | %.1f / %.1f | %.1f / %.1f | %.1f / %.1f |\n", $1, $2, 100 * $3, 100 * $4,
			100 * $5, 100 * $6, 100 * $7, 100 * $8 }' "$d/tables.csv"
	done
}

build/maquette list parameters >$work/all
sed '/^### Training software/,$d' $work/all >$work/parameters
sed '1,/^### Training software/d' $work/all >$work/fields
{
	cat <<'TEXT'
# Training software

One JSON file per software, which says what differs from the one it `inherits` from; what none of them says has the default below.
A value says where it comes from (`from`: documented, counted or fitted) and its `source`, a fitted one also the `rows` it rests on and its `interval`.

`maquette list software NAME` prints all of a software with its evidence. This page is written by `make calib-readme`.
TEXT
	awk -F' [|] ' '/^[|] `/ {
		sub(/^[|] /, ""); sub(/ [|]$/, "")
		for (i = 1; i <= NF; i++) gsub(/[|]/, "\\|", $i)
		if ($2 != group) {
			group = $2
			printf "\n### %s%s\n\n", toupper(substr(group, 1, 1)), substr(group, 2)
			print "| field | unit | default | range | meaning |\n| --- | --- | --- | --- | --- |"
		}
		print "| " $1 " | " $3 " | " $4 " | " $5 " | " $6 " |"
	}' $work/fields
} >$software_readme.new
mv $software_readme.new $software_readme
{
	cat <<'TEXT'
# Calibrations

One JSON file per device type, `links.json` for all link classes, `nccl.json` for the constants of NCCL's tuning; [../kernels](../kernels/README.md) has
the kernels of libraries, read with them. A value is a number or `{"value": x, "unit": "...", "source": "..."}`; what a
file leaves out has the default below. `maquette calibrate` writes such files from one's own measurements; `--calib FILE` adds them.
This page is written by `make calib-readme`.

A device file is all that is known of a type: `platform generate`, `platform import` and `score` know no other. Beside `values` it may have

- `"aliases": ["A100-80GB", "A100"]`: what else people and tables call it, a machine that has it too ("p4d"). Two files may not share one.
- `"reported": ["A100 80GB PCIe"]`: what drivers and the PCI list call it, where that tells variants apart (`platform import`).
- `"inherits": "OTHER"`: what the file leaves out, names and `source` apart, is as in OTHER: a file of the same folder, or one loaded before (of a link class: another class). `null` for a
  value is the default again. A file of one's own may inherit from the shipped one of its own name: it then changes some values of that type, and no other type.

A type without any file: where a platform states `mq_memory_B` and `mq_mem_bw_Bps` beside a host's speed (`platform generate gpu=NAME tflops=...` does,
and says what it assumed), it gets the defaults below, the speed as its 16-bit peak, half of it in TF32 and a sixteenth in fp32 (the proportions of an
A100); of a CPU the speed is that in fp32.

How the fitted values came about:

- **GEMM terms** (`gemm_*`): `maquette score --gemm --fit FOLDER -o DIR` on published kernel timings, held out by weight shape (a third of the shapes
  at a time). What belongs to the libraries' tiles has one value for a generation (`gemm_kt`, `gemm_a0`, `gemm_q`, `gemm_corner`): Ampere, Ada, Hopper and Blackwell
  fitted to the GEMMs of NVIDIA's aiconfigurator (held out by shape, median / 90th percentile: A100 4.0 / 13, H100 3.9 / 15, B200 3.6 / 13, GB200 5.5 / 13, L40S 6.2 / 18 %);
  older ones as the defaults below, of older libraries; a share of the peak and one of the bandwidth are a device's own where they differ from the defaults (the A100's timings give .788, .812 and
  5.7 us, the A40's .80, .77 and 3 us: .78, .8 and 5 us stand for both, .2 to .5 points worse in the median). Held-out error, median / 90th
  percentile: A100 4.5 / 12.4 %, H100 4.8 / 14.3 %, A40 4.3 / 13.3 %, V100 5 / 24 % (with all seven its own: 4.3 / 11.9, 4.5 / 14.3, 4.0 / 14.6, 4.8 / 24). Its table was timed by a host that launches a GEMM every 23 us: shorter ones take that long (`host_launch_s` of the V100-PCIE-16GB). Half
  of the V100's tail is the library's choice of kernels, which no parameter describes: GEMMs of k = 512 and more than 5,600 columns run at 49
  instead of 70 Tflop/s unless they have 65,536 rows, wide ones of k = 128 and 256 lose a fifth to a third (37 of 108 such rows are over 15 % off), and a
  single row reads its matrix at 0.4, 0.57 or 0.8 TB/s without a visible rule (20 of 37); without these two kinds 4.3 / 17 %.
- **Attention**: no value of a device or software is fitted. Shares of the peak per library, generation and width of a head stand in [../kernels/attention.csv](../kernels/README.md): from
  FlashAttention-2's and -3's papers and read off published timings of single kernels (`maquette score --kernels` holds the model against those); `triton1`
  by what FlashAttention-2's paper says of it (1.3 to 1.5 and 2 times as fast; backward at a width of 64 fitted to MPT's runs). `attention_scale` is for `calibrate`, which measures a device at hand.
- **Power** (`flop_J`, `flop_fp8`, `flop_fp4`, `memory_J`, `power_idle`, `power_s`): what a device draws; its clock falls to what `power_W` allows
  (sim/kernels/power.c). An operation of a GEMM is timed on H100, fitted on A100, B200, GB200 and L40S; boards of the same chip take it over, by
  the 1.5th power of their clocks, and find their own clock by their own limit (PCIe boards, H20, A30, A10, L4, T4, B300).
  **What is left** (`fleet` of the NVLink classes): runs of 8 GPUs and more are .90 (A100, .886 to .907) and .81 (H100, .753 to .851) of what one GPU's
  kernels at their clock give, fitted to five tables of real runs (vTrain multi-node, BLOOM topology search, InternEvo, MPT, torchtitan; the last
  two for H100), every table with equal weight. Blackwell has A100's, no run of it is fitted. `overlap_compute` is not fitted: a collective takes as many multiprocessors as it has channels, of GEMMs on Hopper twice as many
  (`overlap_gemms`, timed). **T4**: GEMM terms of the V100.
  Other types take over the values of their architecture family, as their sources say.
- **Software** (`../software/NAME.json`; [its page](../software/README.md) has the fields): what a training software's kernels move, its host takes, it
  overlaps and holds, each value with its evidence. Most fitted ones come from the same joint fits. Which software a published
  row ran with, and what it set of it, stands in the row (`software`, `software_options` of results/published).
  *Written out op by op* (`norm`, `rope`, `activation` = eager; `attention` = stored): bytes are counted in PyTorch's kernels
  (sim/kernels/model_kernels.c), so `traffic` of InternEvo and of torchtitan without its compiler is 1 and not fitted. Experts without `fused_experts`
  are a kernel per step, counted there too. Pipelines under DeepSpeed as in the Sailor table train in
  fp32 with TF32 GEMMs, as its configuration has it, and are counted in its modules; one value of theirs is a fit, `host`.
  *Casts*: of fp8 operands, tensor-wise without fusion 7 (read for the maximum 2, read again 2, write 1, transpose 2), Transformer Engine 1.5 (fit: NeMo's
  dense runs); MXFP8 takes two copies, by rows and by columns: read 2, write 1 + 1. `cast_B` and `accum_B`: weights cast down and gradients cast up and
  unscaled 4 + 2 + 2 + 4, a gradient added to the sum of those before it 8 + 4. `update_B` in TensorFlow: clipping 12, weight decay of its own 20,
  unscaling 8, finite or not 4, LAMB's norms 20 (60 taken for all); elsewhere what the optimizer's step does before and behind its kernel (a norm, clipping, copies), which is
  14 to 56 bytes a parameter beside the 28 of fused Adam, and 80 where Adam is written out; `grads_B` of all gradients of a rank (divided, cleared), which a sharded optimizer does not divide. `reduce_B`: to the library's buffer and back 16, cast to 16 bit on the way 20.
  `optimizer_kernels` is below 1 where a call updates many parameters (apex: Megatron). All but the fit are counted in the sources of these frameworks and models.
  *Host*: 10 for eager modules under tensor parallelism, Megatron's and nanotron's (fit: vTrain's two rows that their hosts bind; NeMo's give 11.4). BigScience ran with
  CUDA_LAUNCH_BLOCKING=1 (`cuda_launch_blocking`): host time adds to the device's, which is what its small micro-batches lose.
  *Rings*: a later step is a call over a block of keys, with a sum in fp32 after it. torchtitan's three runs on cp 2, 4 and 8 come out 8 % slow, 18 % and
  20 % fast: from 4 on each block takes twice what it takes on 2; why is open.
  `vtrain-predictor` describes the tool whose outputs vTrain's single-node table has: what it composes (no recompute,
  unpadded vocabulary, gradients reduced at the end) is read off differences between its rows; traffic and host are fitted to them.
- **Machines** stand in the `platform` of each published row. Jean Zay's A100 partition is one,
  though its PCIe and NUMA settings were repaired on 25 February 2022: before, its ports deliver two thirds by 33 of BLOOM's rows (12.5 GB/s for them costs .5 points).
  Rows of different machines are not ranked together. Where `change` sets `host_launch_s`, the machine's CPUs are slower than those behind the software's
  values, by clocks and work per clock, not by runs.
- **GEMMs in fp32** (`gemm_fp32`): on plain cores, so not by the tensor cores' efficiency; V100 1.25, fit with `tensorflow-xla` (BERT alone 1.23, ELECTRA alone 1.31).
  **In tf32** (`gemm_tf32`): Hopper's tensor cores take operands of 32 bits along k alone, and of a layer's three GEMMs two lie otherwise. On a H200 the
  forward one reaches .52 of bf16's speed (median of six layers), the input's gradient .44, the weights' .33: .83 of half bf16's for the three together.
- **Convolutions** (A100, V100: NVIDIA's image examples, ten networks in two frameworks, each left out once below). A convolution is an implicit
  GEMM in the tiles above, at `conv_eff` of the peak; in fp32 beside tensor cores at `conv_eff_simt`, with narrower tiles and a prologue that is
  shorter in steps, or Winograd's. Its input gradient gathers with the same window. `conv_volume`: windows with three axes (3D U-Net alone
  says so). One filter per channel is a kernel of its own kind: `conv_depthwise` of the fp32 peak, twice that in 16 bits with channels last.
  Tensor cores want channels last: software that keeps them first (`channels_first`: PyTorch by default, XLA in 32 bits and in volumes) pays
  `layout_passes` over the tensors of every convolution, which is why ResNet-50 in tf32 is a third slower than its GEMMs. What follows a norm inside
  its kernels is counted (`elementwise_fusion`), not fitted: XLA's chains, MXNet's and Paddle's fused batch norms. `step_ms` (TensorFlow: the loss
  fetched each step) is fitted to its image examples. Hosts that wait for each other at the end of a step (PyTorch's ConvNets for the mean of all losses,
  Horovod for what is ready) lose 7 to 48 ms on eight GPUs by these runs; it is left out, and costs them .2 points in the mean. Suppression of overlapping boxes runs on the host in
  TensorFlow's Mask R-CNN: 16 operations per pair at 2 Gflop/s, stated; it is 66 ms of a step, whatever the batch, precision and GPU, and so are the runs.
  Known to be off: GPUNet-0 and -1 come out 17 to 42 % fast, on hosts where five cores a GPU decode and augment its
  images (data loading is not modelled); 3D U-Net with a batch of 8 in tf32 60 % fast: it takes 2.7 times as long per volume as with 4, as if no workspace were left.
- **Memory**: `fragmentation` 1.05 is stated, not fitted. Of the software's fields `loss_B`, `grads_twice`, `flat_M`, `save_quantized_operands` and `deallocate_pipeline_outputs` follow
  from what it holds (sim/lowering/footprint.c, memory.c); MPT's runs, which take the largest micro-batch that fits, are the check on `loss_B` 2. `reserve_GB`
  (context, libraries) and `comm_GB` (buffers of communicators, where NVLink joins the GPUs) are 2 + 2 for pipelines under DeepSpeed: their sum
  from the BLOOM and Sailor tables, its division assumed; elsewhere the reserve is assumed. Measured peaks are nvidia-smi's (BLOOM, Sailor: with
  context and whatever the allocator keeps) or PyTorch's reserved bytes (torchtitan: without context).
- **Ethernet** (`eth`): TCP takes the host's processors, so a port gives the lesser of a share of its nominal bandwidth (10 Gb/s: 86 %) and a rate
  (`port_Bps`: on ports of 100 Gb/s nccl-tests are published at 4 to 6 GB/s, with more threads at less). AMP's runs reduce gradients in
  fp32, as their DeepSpeed configuration says; taken for 16 bit, the same runs would ask for half of what their ports of 50 Gb/s give. Their `reduce_B` 28 is counted: flat copy 4,
  to fp32 6, division 8, back to 16 bit 6, out of the flat copy 4.
- `bmm_misaligned` (batched GEMMs of odd heads) is what ordinary cores do: peak_fp32 / peak.
- Such joint fits are made, and judged by leaving one table out after the other, with `maquette fit TABLE... --free NAME,...`.
- `links.json`: published collective timings; Omni-Path and RoCE from the training runs (no open table of collectives on them). The large errors
  are those of two systems: V100 on 10 GbE sockets (458 of 1,320 rows; 90th percentile 31 / 48 / 45 % from large to small; its own repeats of one
  call differ by 2.7 times) and four H100 NVL (54 rows; neighbouring sizes take 7 or 28 us, medians of three). All others: median 3.3 / 6.7 / 3.2 %,
  90th percentile 13 / 19 / 11 %.

TEXT
	# The 63 measured times of a link class are one line.
	awk '!/_t[0-9]_s`/ || /gemm_t0_s/ { print } /`all_reduce_t1_s`/ {
		print "| `COLLECTIVE_t1_s` to `_t9_s` | s | 0 | 0 to 10000 | measured time of one call (all_reduce, ... sendrecv) " \
			"of 8 B, 64 B, 512 B, ... 128 MiB; 0 = not measured |" }' $work/parameters
	fitted_values >$work/fitted
	given_values >$work/given
	awk -F'\t' -v given="$work/given" -v meanings="$work/parameters" '
	FILENAME == given {
		if ($1 == "inherits") { parent[$2] = $3; heir[++heirs] = $4 "\t" $2 } else says[$2, $3] = 1
		next
	}
	FILENAME == meanings { # what the parameters mean, per kind of entry
		if (/^### Device/) kind = "device"
		if (/^### Link/) kind = "link"
		if (split($0, c, / *\| */) > 6 && c[2] ~ /^`/) { gsub(/`/, "", c[2]); means[kind, c[2]] = c[6] }
		next
	}
	{
		at = $1 "\t" $2
		fitted[$2] = fitted[$2] " " $3
		if (!(at in seen)) { seen[at] = ++n; entry[n] = at }
		inherited = $6 ~ /^architecture family/
		own[at] += !inherited; taken[at] += inherited
		if (inherited) next
		row[++rows] = "| " $2 " | `" $3 "` | " $4 " | " $5 " | " $6 " | " means[$1, $3] " |"
	}
	# Fitted values that an entry has from those it inherits from: the nearest that says a value counts.
	function inherited_by(who,    count, k, i, up, near, names, hidden) {
		for (up = parent[who]; up != ""; up = parent[up]) {
			k = split(fitted[up], names, " ")
			for (i = 1; i <= k; i++) {
				hidden = 0
				for (near = who; near != up; near = parent[near])
					hidden += (near SUBSEP names[i]) in says
				count += !hidden
			}
		}
		return count
	}
	END {
		for (i = 1; i <= heirs; i++)
			if (!(heir[i] in seen)) entry[++n] = heir[i]
		print "### How many values are fitted\n"
		print "Fitted for the entry itself, and taken over from its architecture family or the entry it inherits from (fitted there).\n"
		print "| entry | kind | fitted | taken over |\n| --- | --- | --- | --- |"
		for (i = 1; i <= n; i++) {
			split(entry[i], e, "\t")
			printf "| %s | %s | %d | %d |\n", e[2], e[1], own[entry[i]], taken[entry[i]] + inherited_by(e[2])
		}
		print "\n### Fitted values\n"
		print "Those of the entries themselves; what an entry takes over stands under the one its source names.\n"
		print "| entry | parameter | value | unit | source | meaning |\n| --- | --- | --- | --- | --- | --- |"
		for (i = 1; i <= rows; i++) print row[i]
	}' $work/given $work/parameters $work/fitted
	left_out
} >$readme.new
mv $readme.new $readme
echo "calib-readme: $readme, $software_readme"
