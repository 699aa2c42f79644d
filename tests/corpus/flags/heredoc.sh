N=2
sbatch -p x <<EOF
#SBATCH --nodes=4
run $N \$SLURM_NNODES --tensor-model-parallel-size 2
cat <<\X | bash
b
X
EOF
sh <<E
c