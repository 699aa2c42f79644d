#SBATCH --nodes=2
N=${NODES:-"2"}; A=(--tensor-model-parallel-size $((N * 2)))
if [[ $N -gt 1 && -z "$X" ]]; then A+=("--sequence-parallel"); else A=(); fi
case $N in 2) P=2 ;; *) P=1 ;; esac
f() { torchrun --nproc_per_node 8 pretrain_gpt.py "$@" ${A[@]}; }
for b in 1; do f --micro-batch-size $b --pipeline-model-parallel-size $P; done
srun bash -c "echo $A" <<EOF
--x
EOF
