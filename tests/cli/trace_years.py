import csv, gzip, json, statistics, sys
WORLD, STEPS = 2, 3
# kind, elements that a rank gives, type as (1.x, NCCL's word, bytes); bytes are what nccl-tests counts.
CALLS = [("all_reduce", 25000, "float", 4, 100000), ("all_reduce", 1000000, "float", 4, 4000000),
         ("all_gather", 4096, "c10::Half", 2, 2 * 8192), ("reduce_scatter", 8192, "c10::Half", 2, 2 * 8192),
         ("broadcast", 53, "long int", 8, 424)]
CAMEL = {"all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "broadcast": "Broadcast"}
BASE = {"all_gather": "_all_gather_base", "reduce_scatter": "_reduce_scatter_base"}
NEW = {"all_reduce": "allreduce", "all_gather": "_allgather_base", "reduce_scatter": "_reduce_scatter_base", "broadcast": "broadcast"}
DTYPE = {"float": ("float", "f32", "Float"), "c10::Half": ("half", "f16", "Half"), "long int": ("int8_t", "i8", "Long")}

def lasts(step, i, rank):  # us: the call's own time, and what this rank waits for the other, by turns
    return 10.5 + 100 * i + 7 * step + (0 if (step + i) % WORLD == rank else 30.25 + 3 * rank + step)

def kernel(year, kind, dtype):
    word = dtype[0] if kind in ("all_reduce", "reduce_scatter") else "int8_t"
    if year == 2021: return "nccl%sRingLLKernel_%s(ncclColl)" % (CAMEL[kind], "sum_" + (dtype[1] if word != "int8_t" else "i8"))
    if year in (2022, 2023): return "ncclKernel_%s_RING_LL_Sum_%s(ncclWorkElem)" % (CAMEL[kind], word)
    return "ncclDevKernel_%s_%sRING_LL(ncclDevComm*, unsigned long, ncclWork*)" % (CAMEL[kind], "Sum_%s_" % dtype[1] if word != "int8_t" else "")

def trace(year, rank):
    old = year == 2021
    cat = lambda new, was: was if old else new
    ev, ext = [], 100
    t0 = 5768310843012.125 if year == 2024 else 1619499959628361
    at = lambda us: us + t0 if year == 2024 else int(us + t0)
    X = lambda name, category, ts, dur, tid, pid, args: ev.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid,
                                                                   "ts": ts, "dur": dur, "args": args})
    ev.append({"ph": "M", "name": "process_name", "pid": 77, "tid": 0, "ts": 0, "args": {"name": "python"}})
    for step in range(STEPS):
        s = 10000 * step
        X("ProfilerStep#%d" % (step + 5), cat("user_annotation", "Operator"), at(s), 9000, 77, 77, {"External id": 1 + step})
        for i, (kind, n, long_type, size, _) in enumerate(CALLS):
            t, ext, dtype = s + 1000 * i, ext + 2, DTYPE[long_type]
            note, where = {"External id": ext}, "nccl:" + BASE.get(kind, kind)
            shape = {"Input dims" if old else "Input Dims": [[n]], "Input type": [long_type]}
            if year == 2021: X(where, "Operator", at(t), 90, "77", 77, dict(note, **shape))
            if year == 2022: X(where, "user_annotation", at(t), 90, 77, 77, dict(note, **shape))
            told = {"Collective name": NEW[kind], "In msg nelems": n, "Out msg nelems": n * {"all_gather": 2, "reduce_scatter": .5}.get(kind, 1),
                    "Group size": WORLD, "dtype": dtype[2], "In split size": "[]", "Out split size": "[]"}
            if year == 2023:
                X("record_param_comms", "cpu_op", at(t), 90, 77, 77, dict(note, **{"Input Dims": [[[n]], [], [], []], "Input type":
                  ["TensorList", "Scalar", "Scalar", ""]}, **told, **{"Process Group Name": "0"}))
            if year == 2024:
                X("record_param_comms", "cpu_op", at(t), 90, 77, 77, dict(note, **told, **{"Process Group Name": str(rank), "Process Group Ranks": "[0, 1]"}))
            ids = {cat("External id", "external id"): ext, "correlation": ext}
            X("cudaLaunchKernel", cat("cuda_runtime", "Runtime"), at(t + 20), 5, cat(77, "77"), 77, dict(ids, cbid=211))
            mine = dict(ids, device=rank, stream=20)
            if year == 2024: mine.update(told, **{"Process Group Name": str(rank), "Process Group Ranks": [0, 1]})
            X(kernel(year, kind, dtype), cat("kernel", "Kernel"), at(t + 40), lasts(step, i, rank), cat(20, "stream 20"), rank, mine)
            X("nccl:all_reduce", "gpu_user_annotation", at(t + 40), 500, 20, rank, {"External id": ext})  # of the device: no call
    top = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Some GPU", "totalGlobalMem": 4e10, "computeMajor": 8, "computeMinor": 0, "numSms": 108}],
           "traceEvents": ev, "traceName": "x.json", "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": WORLD}}
    if year == 2024: top.update(baseTimeNanoseconds=1712345678000000000, displayTimeUnit="ms")
    return top

def check(path, ranks):
    rows = list(csv.DictReader(open(path)))
    for i, (kind, _, _, _, size) in enumerate(CALLS):
        own = [lasts(s, i, r) for r in ranks for s in range(STEPS)]
        least = [min(lasts(s, i, r) for r in ranks) for s in range(STEPS) for _ in ranks]
        want = (kind, WORLD, size, len(own), statistics.median(own), statistics.median(least) if len(ranks) > 1 else min(own))
        got = [(r["collective"], int(r["ranks"]), int(r["bytes"] or -1), int(r["count"]), 1e6 * float(r["median_s"]), 1e6 * float(r["without_waiting_s"]))
               for r in rows if r["collective"] == kind and (r["bytes"] or "-1") == str(size)]
        if len(got) != 1 or got[0][:4] != want[:4] or abs(got[0][4] - want[4]) > 1e-6 or abs(got[0][5] - want[5]) > 1e-6:
            print(path, "has", got or [(r["collective"], r["bytes"]) for r in rows], "instead of", want)
    if len(rows) != len(CALLS): print(path, "has", len(rows), "rows")

if sys.argv[1] == "make":
    for year in 2021, 2022, 2023, 2024:
        for rank in 0, 1:
            text = json.dumps(trace(year, rank), indent=1)
            with (gzip.open if rank else open)("y%d.%d.json%s" % (year, rank, ".gz" if rank else ""), "wt") as f: f.write(text)
else:
    check(sys.argv[2], [int(r) for r in sys.argv[3].split(",")])
