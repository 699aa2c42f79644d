/* asked.c - see asked.h. SPDX-License-Identifier: Apache-2.0 */
#include "software/asked.h"

#include <math.h>
#include <unistd.h>

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct mq_asked, field, __VA_ARGS__)
#define GIVEN(field)                .given = offsetof(struct mq_asked, field)
#define OF_TRAINING                 (MQ_ARG_PLAN | MQ_ARG_JOB_KEY)

#define TORCH_NAMES "bfloat16=bf16 float16=fp16 half=fp16 float32=fp32 float=fp32 float64=fp64 double=fp64"
#define GEMM_DTYPE                                                                                            \
	ROW(WORD, "gemm-dtype", train.gemm_dtype, "TYPE",                                                     \
	    "data type of GEMM operands in the layers; dtype = as --dtype; everything else stays in --dtype", \
	    .words = "dtype|fp8|mxfp8|fp4", .also = "nvfp4=fp4", .was = "products", .flags = OF_TRAINING)

static const struct mq_arg gemm_dtype = GEMM_DTYPE;

const struct mq_arg mq_question_args[] = {
	{ .type = MQ_ARG_GROUP, .name = "The question:" },
	ROW(TEXT, "model", model, "MODEL",
	    "NAME[:key=value,...] of a built-in model, ORG/NAME of a shipped configuration, or a file", .letter = 'm',
	    .flags = OF_TRAINING | MQ_ARG_FILE | MQ_ARG_COMMAS),
	ROW(TEXT, "platform", platform, "FILE",
	    "platform XML file, a shipped platform's name, 64xH100, keys of `platform generate` (\"gpu=H100 "
	    "nodes=8\"), or 'model'",
	    .letter = 'p', .flags = MQ_ARG_FILE | MQ_ARG_MACHINE),
	ROW(TEXT, "devices", devices, "RANKS",
	    "use only these devices of the platform: 0-31, or 0-3,8-11; plans number them from 0",
	    .flags = MQ_ARG_MACHINE | MQ_ARG_JOB_KEY | MQ_ARG_COMMAS),
	ROW(WHOLE, "batch", train.batch, "N",
	    "samples per step over all devices; must be given in training, unless a launch script of -m says it",
	    .initial = 1, .min = 1, .max = 1u << 30, GIVEN(batch_given),
	    .flags = OF_TRAINING | MQ_ARG_ALWAYS | MQ_ARG_OWN_DEFAULT),
	ROW(TEXT, "tokens-per-batch", tokens_per_batch, "N", "instead of --batch: tokens per step, as 4M or 4Mi",
	    .flags = OF_TRAINING),
	ROW(INT, "seq", seq, "N", "tokens per sample, as 8192 or 8k (default: the model's)", .min = 1, .max = 1u << 30,
	    .flags = OF_TRAINING | MQ_ARG_KIBI),
	ROW(TEXT, "software", software, "NAME[,key=value...]",
	    "training software that runs the plans, see `maquette list software`", .text = "generic",
	    .flags = OF_TRAINING | MQ_ARG_ALWAYS),
	ROW(WORD, "dtype", train.dtype, "TYPE",
	    "training data type, by default bf16 if every GPU has it, else fp16 (fp32 without GPUs); fp32 is tf32 "
	    "under software whose GEMMs use it; mxfp8 and nvfp4 set --gemm-dtype instead",
	    MQ_ARG_NAMES(mq_dtype_name, MQ_N_TENSOR_DTYPES), .also = TORCH_NAMES, .instead = &gemm_dtype,
	    .initial = MQ_FP16, GIVEN(dtype_given), .flags = OF_TRAINING | MQ_ARG_ALWAYS | MQ_ARG_OWN_DEFAULT),
	ROW(WORD, "grad-dtype", train.grad_dtype, "TYPE", "data type of reduced gradients, by default the software's",
	    MQ_ARG_NAMES(mq_dtype_name, MQ_N_TENSOR_DTYPES), .also = TORCH_NAMES, GIVEN(grad_given),
	    .flags = OF_TRAINING | MQ_ARG_OWN_DEFAULT),
	ROW(WORD, "optimizer", train.optimizer, "NAME", "optimizer; none: forward and backward pass only",
	    .words = "adam|sgd|momentum|none", .flags = OF_TRAINING | MQ_ARG_ALWAYS),
	ROW(WORD, "mode", train.infer, "MODE", "training steps or forward passes", .words = "train|infer",
	    .flags = OF_TRAINING | MQ_ARG_ALWAYS),
	ROW(TEXT, "train", train.tuning, "WHAT",
	    "trained part of the model: full; lora[:rank=16,targets=qkv+proj,dropout=0,alpha=32,base=dtype], with the "
	    "frozen base as --dtype, in fp8, mxfp8, nvfp4 or nf4; qlora is lora:base=nf4; frozen:PATTERN: all ops "
	    "except those that match; or PEFT's adapter_config.json",
	    .flags = OF_TRAINING | MQ_ARG_COMMAS | MQ_ARG_FILE),
	GEMM_DTYPE,
	ROW(TEXT, "sequence-packing", sequence_packing, "LENGTHS",
	    "lengths of documents packed into sequences, with attention inside each document: 1000 (all equal), "
	    "lognormal:MEAN:SIGMA, or lengths to draw from: 300,2000,120 or a file",
	    .was = "documents", .flags = OF_TRAINING | MQ_ARG_FILE),
	ROW(TEXT, "expert-load", expert_load, "LOAD",
	    "mixture of experts: tokens of the fullest expert-parallel rank / the mean, or tokens of each expert: "
	    "5,3,1,1 or a file (default: equal)",
	    .flags = OF_TRAINING | MQ_ARG_FILE),
	ROW(F64, "expert-capacity", train.experts.capacity, "C",
	    "an expert takes at most C times the mean number of tokens; the rest is dropped", .min = 1e-3, .max = 1e6,
	    .flags = OF_TRAINING),
	ROW(FLAG, "expert-pad", train.experts.pad, NULL, "experts are padded to their capacity", .flags = OF_TRAINING),
	ROW(LIST, "calib", calib, "FILE", "calibration to add to the shipped ones; repeatable", .flags = MQ_ARG_FILE),
	ROW(LIST, "trust-with", trust_with, "FILE",
	    "runs of your own machine for the intervals: a trust.csv of `score` or `validate`; repeatable",
	    .flags = MQ_ARG_FILE | MQ_ARG_EFFORT),
	ROW(LIST, "change", change, "TARGET=NUMBER",
	    "what if: link.CLASS.bw, device.TYPE.flops, rank.N.clock=FACTOR, ...; repeatable"),
	{ .type = MQ_ARG_GROUP, .name = "Constraints on plans:" },
	ROW(LIST, "fix", fix, "KEY=VALUE", "dp tp pp cp ep etp ulysses mbs virtual schedule recompute sync; repeatable",
	    .flags = MQ_ARG_CONSTRAINT | MQ_ARG_JOB_KEY),
	ROW(LIST, "max", max, "KEY=VALUE",
	    "dp tp pp devices; of a step: cost ($), energy (kWh), step-time (s), memory (GB of a device); repeatable",
	    .flags = MQ_ARG_CONSTRAINT | MQ_ARG_JOB_KEY),
	ROW(TEXT, "start", start, "PLAN", "plan file from which engines start",
	    .flags = MQ_ARG_CONSTRAINT | MQ_ARG_FILE),
	{ .type = MQ_ARG_GROUP, .name = "Simulation:" },
	ROW(INT, "seed", seed, "N", "seed of all randomness", .initial = 1, .max = 0x1p64,
	    .flags = MQ_ARG_MACHINE | MQ_ARG_ALWAYS),
	ROW(F64, "timeout", timeout_s, "S", "simulated seconds after which a plan is abandoned", .unit = "s",
	    .initial = 1e6, .min = 1e-9, .max = 1e12, .flags = MQ_ARG_PLAN | MQ_ARG_ALWAYS),
	ROW(F64, "simulation-time", simulation_s, "S",
	    "limit on the estimated time to simulate one plan, s; larger plans are refused "
	    "(recommend: 10, search, simulate and whatif: 20; else no limit)",
	    .unit = "s", .initial = INFINITY, .min = 1e-9, .max = 1e9, .flags = MQ_ARG_PLAN),
	ROW(FLAG, "no-interference", no_interference, NULL, "compute and communication do not slow each other",
	    .flags = MQ_ARG_PLAN),
	ROW(FLAG, "no-fold", no_fold, NULL, "simulate every rank, even identical ones", .flags = MQ_ARG_PLAN),
	ROW(FLAG, "time-oom", time_oom, NULL, "also time plans that exceed memory; their verdict stays",
	    .flags = MQ_ARG_PLAN),
	ROW(FLAG, "debug-check", debug_check, NULL, "check all invariants after each load"),
	ROW(INT, "jobs", jobs, "N", "worker processes (default: the processors); never changes a result", .letter = 'j',
	    .min = 1, .max = 4096, .flags = MQ_ARG_QUIET | MQ_ARG_OWN_DEFAULT),
	{ .type = MQ_ARG_END },
};

void mq_asked_init(struct mq_asked *asked)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	*asked = (struct mq_asked){ .train.grad_dtype = MQ_FP32 };
	mq_args_defaults(mq_question_args, asked);
	asked->jobs = cpus > 0 ? (uint32_t)cpus : 1;
}

void mq_asked_limit_simulation(struct mq_asked *asked)
{
	asked->simulation_s = isinf(asked->simulation_s) ? 20 : asked->simulation_s;
}

enum mq_status mq_asked_train(const struct mq_asked *asked, const struct mq_software *software, struct mq_arena *arena,
			      struct mq_train *train, struct mq_err *err)
{
	*train = asked->train;
	if (!asked->grad_given)
		train->grad_dtype = mq_software_grad_dtype(software, train->dtype);
	if (train->experts.pad && !(train->experts.capacity > 0))
		return mq_bad(err, "--expert-pad: give --expert-capacity too, to which experts are padded");
	if (asked->expert_load)
		MQ_TRY(mq_expert_load_read("--expert-load", asked->expert_load, arena, &train->experts, err));
	train->sequence_packing.seed = asked->seed;
	return asked->sequence_packing ? mq_sequence_packing_read("--sequence-packing", asked->sequence_packing, arena,
								  &train->sequence_packing, err) :
					 MQ_OK;
}
