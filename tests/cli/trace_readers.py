import sqlite3, struct
# Two steps of 1 ms on each of two devices: a product and a reduction in layer 3, an all-reduce beside nothing.
def report(path, devices, tables=True):
    db = sqlite3.connect(path)
    db.executescript("""CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER);
    CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER, computeMajor INTEGER, computeMinor INTEGER);""")
    if tables:
        db.executescript("""CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
        correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, bytes INTEGER);""")
        db.executemany("INSERT INTO StringIds VALUES (?,?)", [(1, "ampere_bf16_gemm"), (2, "reduce_kernel"),
            (3, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)"), (4, "cudaLaunchKernel_v7000"), (5, "layers.3")])
        for d in range(devices):
            pid, tid = (100 + d) << 24, ((100 + d) << 24) + 7
            for step in range(2):
                t, c = 10**9 + step * 10**6, 10 * step
                db.execute("INSERT INTO NVTX_EVENTS VALUES (?,?,59,?,?,NULL)", (t, t + 10**6, "step %d" % step, tid))
                db.execute("INSERT INTO NVTX_EVENTS VALUES (?,?,59,NULL,?,5)", (t, t + 300000, tid))
                for i, (name, at, us) in enumerate([(1, 100, 200 + d), (2, 400, 50), (3, 500, 400)]):
                    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,?,7,?,?,?,0)",
                               (t + at * 1000, t + (at + us) * 1000, d, c + i + 1, pid, name))
                    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,?,?,4)",
                               (t + 1000 * (50 * i + 1), t + 1000 * (50 * i + 5), tid, c + i + 1))
                db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?,?,?,7,?,4096)", (t + 920000, t + 930000, d, c + 9))
        for d in range(devices):
            db.execute("INSERT INTO TARGET_INFO_GPU VALUES (?,'NVIDIA A100',85e9,108,8,0)", (d,))
    db.commit()
report("one.sqlite", 1); report("two.sqlite", 2); report("bare.sqlite", 1, False)
# A name that an expression makes, as long as SQLite takes.
report("large.sqlite", 1)
db = sqlite3.connect("large.sqlite")
db.executescript("DROP TABLE StringIds; CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT AS (hex(zeroblob(4e8))))")
db.execute("INSERT INTO StringIds VALUES (1)")
db.commit()

def varint(x):
    out = b""
    while x >= 128: out += bytes([x & 127 | 128]); x >>= 7
    return out + bytes([x])
def block(field, data): return varint(field << 3 | 2) + varint(len(data)) + data
def num(field, x): return varint(field << 3) + varint(x)
def attr(name, x): return block(10, block(1, name.encode()) + (num(27, x) if isinstance(x, bool) else num(9, x) if isinstance(x, int) else block(29, x.encode())))
def node(i, name, kind, start, us, *attrs):
    m = num(1, i) + block(2, name.encode()) + num(3, kind) + (num(6, start) if start else b"") + (num(7, us) if us else b"") + b"".join(attrs)
    return varint(len(m)) + m
def et(path, starts, durations=1):
    head = block(1, b"0.0.4"); f = varint(len(head)) + head
    on = lambda t: t if starts else 0
    f += node(1, "ProfilerStep#1", 4, on(1000), 1000, attr("is_cpu_op", True))
    f += node(2, "ampere_bf16_gemm", 4, on(1100), 200 * durations, attr("is_cpu_op", False), attr("stream", 7))
    f += node(3, "all-reduce of gradients", 7, on(1300), 400 * durations, attr("is_cpu_op", False), attr("comm_type", 0), attr("comm_size", 1 << 20), attr("pg_name", "0"))
    f += node(4, "to the next stage", 5, on(1800), 100 * durations, attr("is_cpu_op", False), attr("comm_size", 4096))
    open(path, "wb").write(f)
et("run.0.et", True); et("unstarted.1.et", False); et("made.0.et", True, 0)
d = open("run.0.et", "rb").read(); open("half.0.et", "wb").write(d[:-20])
