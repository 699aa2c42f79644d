# The tables of libraries' kernels: what is missing or damaged is named with file, line and value.
M=$MAQUETTE
mkdir platforms; cp -r "$ROOT"/platforms/*.csv "$ROOT/platforms/calib" platforms
printf 'gpu,dtype,m,n,k,time_us\nA100-80GB,fp16,4096,12288,4096,1911\n' >gemm.csv
try() { # FILE SED-EXPRESSION
	rm -rf platforms/kernels; cp -r "$ROOT/platforms/kernels" "$ROOT/platforms/calib" platforms
	sed -i "$2" "platforms/$1"
	"$M" score --gemm gemm.csv --platforms platforms -o out 2>&1 >/dev/null; [ $? -eq 2 ] || echo "not refused: $*"
}
try kernels/parts.csv '5s/,eager,/,eagre,/'
try kernels/parts.csv '5s/,8,/,-8,/'
try kernels/parts.csv '5{p}'
try kernels/parts.csv '/^pool-tap/d'
try kernels/parts.csv '1s/moved_B/bytes/'
try kernels/attention.csv '3s/.33/1.33/'
try kernels/attention.csv '3{p}'
try kernels/attention.csv '3s/16-bit/17-bit/'
try kernels/attention.csv '3s/ampere/pascal/'
try kernels/attention.csv '3s/,[^,]*$/,/'
try kernels/experts.csv '2s/hopper/pascal/'
try kernels/experts.csv '2s/16-bit/17-bit/'
try kernels/experts.csv '2s/,128,/,0,/'
try kernels/exchange.csv '2s/combine/return/'
try kernels/exchange.csv '2s/,.777,/,0,/;2s/,0.777,/,0,/'
try kernels/products.csv '2s/tensor/tensors/'
try kernels/products.csv '2s/,5,/,0,/'
try kernels/generations.csv '3s/81/0/'
try calib/nccl.json 's/"pcie"/"pci"/'
try calib/nccl.json 's/"ll_max_net": .39, /"ll_max_net": [/'
try calib/nccl.json 's/"volta": 39/"volta": "39"/'
try calib/nccl.json 's/"tree_max"/"tree_most"/'
try calib/nccl.json 's/"before": "2.28"/"before": "2.3"/'
try calib/nccl.json '1d'
cp "$ROOT/platforms/calib/nccl.json" platforms/calib
sed -i '1s/$/,scaling/; 2s/$/,mx/; s/fp16/fp8/; s/A100-80GB/H100/' gemm.csv; try kernels/products.csv '/^any,mx/d'
rm -r platforms/kernels; "$M" score --gemm gemm.csv --platforms platforms -o out 2>&1; [ $? -eq 2 ]
