#!/bin/sh
# calib-readme.sh - writes platforms/calib/README.md: the parameters as the program knows them, and every
# value that was fitted, with its unit and source.
set -eu
readme=platforms/calib/README.md
{
	cat <<'TEXT'
# Calibrations

One JSON file per device type, `links.json` for all link classes. A value is a number or `{"value": x, "unit": "...", "source": "..."}`; what a
file leaves out has the default below. `maquette calibrate` writes such files from one's own measurements; `--calib FILE` adds them.
This page is written by `make calib-readme`.

How the fitted values came about:

- **GEMM terms** (`gemm_*`): `maquette score --gemm --fit TABLE -o DIR`, per device type on published kernel timings, held out by weight shape
  (a third of the shapes at a time). Held-out error, median / 90th percentile: A100 4.2 / 11.9 %, H100 4.5 / 14.3 %, A40 4.2 / 14.6 %, V100
  5.5 / 28.6 % (its tail is the library's choice of kernels for odd shapes, which no parameter describes).
- **Training terms of the A100** (`sustained`, `attention_eff`, `bmm_misaligned`, `gemm_misaligned`, `overlap_compute`): one joint fit to five tables
  of real runs (vTrain multi-node, BLOOM topology search, InternEvo, MPT, torchtitan), every table with equal weight, absolute deviations of the logarithm.
  **H100**: the same over MPT and torchtitan. **T4**: the AMP runs. Other types take over the values of their architecture family, as their sources say.
- **Software** (`../stacks.csv`: memory traffic, attention kernel, host cost): per training software, in the same joint fits.
- **Memory**: `fragmentation` 1.05 is stated, not fitted. Of `../stacks.csv`, `loss_B`, `grads_twice` and `flat_M` follow from what the software
  holds (sim/lower/holding.c, memory.c); MPT's runs, which take the largest micro-batch that fits, are the check on `loss_B` 2. `reserve_GB`
  (context, libraries) and `comm_GB` (buffers of communicators, where NVLink joins the GPUs) are 2 + 2 for pipelines under DeepSpeed: their sum
  from the BLOOM and Sailor tables, its division assumed; elsewhere the reserve is assumed. Measured peaks are nvidia-smi's (BLOOM, Sailor: with
  context and whatever the allocator keeps) or PyTorch's reserved bytes (torchtitan: without context).
- Such joint fits are made, and judged by leaving one table out after the other, with `maquette fit TABLE... --free NAME,...`.
- `links.json`: published collective timings; Omni-Path and RoCE from the training runs (no open table of collectives on them).

TEXT
	build/maquette score --parameters
	printf '### Fitted values\n\n| file | parameter | value | unit | source |\n| --- | --- | --- | --- | --- |\n'
	for f in platforms/calib/*.json; do
		awk -v file="$(basename "$f" .json)" '
		/"kind": "link"/ { if (match($0, /"name": "[^"]*"/)) file = substr($0, RSTART + 9, RLENGTH - 10) }
		/"value":/ && /"source": "[^"]*fit/ {
			line = $0
			match(line, /"[a-zA-Z0-9_]+": *\{/); name = substr(line, RSTART + 1, RLENGTH - 1)
			sub(/".*/, "", name)
			match(line, /"value": [^,]*/); value = substr(line, RSTART + 9, RLENGTH - 9)
			match(line, /"unit": "[^"]*/); unit = substr(line, RSTART + 9, RLENGTH - 9)
			match(line, /"source": "[^"]*/); source = substr(line, RSTART + 11, RLENGTH - 11)
			printf "| %s | `%s` | %s | %s | %s |\n", file, name, value, unit, source
		}' "$f"
	done
} >$readme.new
mv $readme.new $readme
echo "calib-readme: $readme"
