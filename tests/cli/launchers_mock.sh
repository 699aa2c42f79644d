# Ranks as launchers start them, on mock libraries: where they meet, which GPU and cores they take, which libraries they
# find; what a GPU in parts is told; a rank that takes long to open.
. "$ROOT/tests/cli/lib.sh.inc"
mocks
"$M" calibrate --executor cuda --schedule-only --devices 2 --type G --samples two -o two/g.json >/dev/null || bad=1
"$M" calibrate --executor cuda --schedule-only --devices 1 --type G --samples one -o one/g.json >/dev/null || bad=1
replay() { "$REPLAY" --executor cuda --deadline 20 --reps 1 --warmup 0 "$@"; }

# Two ranks started by a launcher: VARIABLE=VALUE..., with R and L for the rank and its place on the machine.
start() { # NAME PLACES VARIABLE=VALUE...
	local name=$1 places=$2 pid; shift 2
	for r in 0 1; do
		[ "$places" = apart ] && l=0 || l=$r
		(for v in "$@"; do v=${v//=R/=$r}; export "${v//=L/=$l}"; done; replay -o "$name.csv" two/comm.jsonl) >"$name.$r" 2>&1 &
		[ $r = 0 ] && pid=$!
	done
	wait $! && wait $pid && [ -s "$name.csv" ] && echo "$name: two ranks ran" || { echo "$name:"; cat "$name".[01]; bad=1; }
}
job=$$
start pmi2 near PMI_RANK=R PMI_SIZE=2 SLURM_LOCALID=L SLURM_STEP_ID=0 SLURM_JOB_ID=a$job SLURM_STEP_NUM_NODES=1
start pmix near PMIX_RANK=R PMIX_NAMESPACE=slurm.b$job.0 SLURM_NTASKS=2 SLURM_LOCALID=L SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=1
start gpus-per-task near SLURM_PROCID=R SLURM_NTASKS=2 SLURM_LOCALID=L SLURM_STEP_ID=0 SLURM_JOB_ID=c$job CUDA_VISIBLE_DEVICES=0 MOCK_DEVICES=1 SLURM_STEP_NUM_NODES=1
# Of two machines: not in a node's own /tmp, and nothing is left.
start nodes apart SLURM_PROCID=R SLURM_NTASKS=2 SLURM_LOCALID=L SLURM_STEP_ID=0 SLURM_JOB_ID=d$job SLURM_STEP_NUM_NODES=2
start mpirun apart OMPI_COMM_WORLD_RANK=R OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=L OMPI_COMM_WORLD_LOCAL_SIZE=1 PMIX_NAMESPACE=prte-e$job@1
ls -d .maquette-* "/tmp/maquette-$(id -u)/"*$job* 2>/dev/null
(export SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_STEP_ID=0 SLURM_JOB_ID=f SLURM_STEP_NUM_NODES=2; replay --deadline 1 -o x two/comm.jsonl 2>&1 | grep -o 'where all machines see it')
# torchrun's own store listens on MASTER_PORT.
if python3 -c '' 2>/dev/null; then
	python3 -c 'import socket,time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True); time.sleep(60)' >port & store=$!
	for i in $(seq 100); do [ -s port ] && break; sleep .05; done
	start torchrun near RANK=R WORLD_SIZE=2 LOCAL_RANK=L MASTER_ADDR=127.0.0.1 MASTER_PORT=$(cat port) TORCHELASTIC_RUN_ID=none
	kill $store 2>/dev/null
else echo "torchrun: two ranks ran"; fi

# One GPU: no NCCL is asked for; opened slowly, it is waited for; its cores are those near it; in parts, it says so.
mkdir -p sys/bus/pci/devices/0000:10:00.0; echo 0 >sys/bus/pci/devices/0000:10:00.0/local_cpulist
export LD_PRELOAD=$MAQUETTE_CUDART
MAQUETTE_NCCL=/nowhere MAQUETTE_SYSFS=$PWD/sys MOCK_MIG=1 replay --deadline 1 -o single.csv one/gemm.jsonl >said 2>&1 || { cat said; bad=1; }
grep -E '^(mig|cpus)=' single.csv.environment.txt
MOCK_SLOW_S=4 replay --deadline 1 -o slow.csv one/gemm.jsonl >said 2>&1 && echo "a slow start is waited for" || { cat said; bad=1; }
unset LD_PRELOAD
MOCK_MIG=1 replay -o parts two/comm.jsonl 2>&1 | grep -o 'NCCL does not run between instances'

# Libraries of conda and of wheels; drivers of CUDA 12 and of 11 beside newer runtimes: the newest that the driver takes,
# and cuBLAS of the same version.
unset MAQUETTE_CUDART MAQUETTE_CUBLAS
mkdir -p ld conda/lib venv/lib/python3.11/site-packages/nvidia/{cuda_runtime,cublas}/lib
export LD_LIBRARY_PATH=$PWD/ld CONDA_PREFIX=$PWD/conda VIRTUAL_ENV=$PWD/venv # what the loader itself finds comes first
wheel=venv/lib/python3.11/site-packages/nvidia
runtime() { cp "$ROOT/$BUILD/mock/mock_cudart.so" "$1"; }
opened() { # DRIVER: the versions that were taken
	MOCK_DRIVER=$1 replay -o taken.csv one/gemm.jsonl >said 2>&1 || { cat said; bad=1; return; }
	echo "driver $1:" $(grep -E '^(cuda_runtime|cublas)=' taken.csv.environment.txt)
}
runtime ld/libcudart.so.13
MOCK_DRIVER=of-12 try 3 'NVIDIA driver is missing or older' calibrate --executor cuda --devices 9 -o x.json
runtime $wheel/cuda_runtime/lib/libcudart.so.12
MOCK_DRIVER=of-12 try 3 'there are 2 here' calibrate --executor cuda --devices 9 -o x.json
MOCK_DRIVER=of-11 try 3 'NVIDIA driver is missing or older' calibrate --executor cuda --devices 9 -o x.json
runtime conda/lib/libcudart.so.11.0
for version in 13 12 11; do cp "$ROOT/$BUILD/mock/mock_cublas.so" $wheel/cublas/lib/libcublas.so.$version; done
mv $wheel/cublas/lib/libcublas.so.13 ld
for driver in of-13 of-12 of-11; do opened $driver; done
rm $wheel/cublas/lib/libcublas.so.12 # one older than the runtime does, one newer would want another driver
opened of-12
rm $wheel/cublas/lib/libcublas.so.11
MOCK_DRIVER=of-12 replay -o x.csv one/gemm.jsonl 2>&1 | grep -o 'no cuBLAS (libcublas.so.12 or .11)'
finish
