. "$ROOT/tests/cli/lib.sh.inc"
# Kernels against published layouts, made neutral, what is left out and why, and tables that are none.
neutral() { "$ROOT/tests/kernel-timings" "$1" neutral; }
cat >liger.csv <<'X'
gpu,kernel,implementation,mode,metric,unit,x_name,x,median,p20,p80,config,source
H100 80GB HBM3,relu_squared,torch,forward,speed,ms,N,16384,0.1855,0,0,"{""M"": 4096, ""dtype"": ""torch.bfloat16""}",x (2026-03-27)
H100 80GB HBM3,relu_squared,torch,forward,speed,ms,N,128,0.00867,0,0,"{""M"": 4096, ""dtype"": ""torch.bfloat16""}",x (2026-03-27)
H100 80GB HBM3,relu_squared,paper,forward,speed,ms,N,16384,0.1,0,0,"{""M"": 4096, ""dtype"": ""torch.bfloat16""}",x (2026-03-27)
H100 80GB HBM3,cross_entropy,huggingface,full,memory,MB,V,4096,1280.13,0,0,"{""B"": 8, ""T"": 2048}",x (2024-09-03)
H100 80GB HBM3,cross_entropy,huggingface,full,memory,MB,V,4096,100,0,0,"{""B"": 8, ""T"": 2048}",x (2024-09-03)
H100 80GB HBM3,cross_entropy,huggingface,full,memory,MB,V,4096,100,0,0,"{""B"": 8}",x (2024-09-03)
X
neutral liger.csv; "$M" score --kernels neutral/liger.csv -o liger 2>&1
cut -d, -f4- liger/score.csv
cat >vidur.csv <<'X'
gpu,op,tokens,tp,hidden,ffn,heads,kv_heads,vocab,gated,time_us,source
A100-SXM4-80GB,add,4096,1,8192,28672,64,8,32768,True,112,x
A100-SXM4-80GB,sneeze,4096,1,8192,28672,64,8,32768,True,112,x
X
neutral vidur.csv; "$M" score --kernels neutral/vidur.csv -o vidur 2>&1
cat >attention.csv <<'X'
gpu,implementation,mode,dtype,batch,heads,kv_heads,seq_q,seq_kv,head_dim,causal,time_us,gpus,flop_convention,source
H100,flash3,forward,float16,2,16,16,8192,8192,128,0,1700,1,,x
H100,dreams,forward,float16,2,16,16,8192,8192,128,0,1700,1,,x
A100,zigzag-ring,full,bfloat16,1,32,8,65536,65536,128,1,94300,8,,x
A100,ring-flash-varlen,full,bfloat16,1,32,8,65536,65536,128,1,94300,8,,x
Z9000,flash3,forward,float16,2,16,16,8192,8192,128,0,1700,1,,x
A100,flash2,forward,bf16,1,32,8,16384,16384,128,1,11200,1,causal half,vllm 0.14.0
A100,trtllm-fmha,forward,bf16,1,32,8,16384,16384,128,1,14100,1,causal half,trtllm 1.0.0
A100,trtllm-fmha,backward,bf16,1,32,8,16384,16384,128,1,14100,1,causal half,trtllm 1.0.0
X
neutral attention.csv; "$M" score --kernels neutral/attention.csv -o attention 2>&1
# A server's attention: its kernels read pages, rows have what it writes to its cache, no gradients.
cut -d, -f2,3,16 neutral/attention.csv | tail -3; tail -3 attention/score.csv | cut -d, -f4-6,8-
# Layers of experts and their exchange: one row of the latter is two.
cat >moe.csv <<'X'
gpu,implementation,dtype,tokens,experts,topk,hidden,ffn,ep,tp,distribution,gated,time_us,version
H100-SXM-80GB,trtllm_cutlass,bf16,8192,128,8,4096,1536,1,1,balanced,1,4000,x
H100-SXM-80GB,trtllm_cutlass,bf16,8192,128,8,4096,1536,8,1,power_law_1.2,1,1200,x
H100-SXM-80GB,abacus,bf16,8192,128,8,4096,1536,1,1,balanced,1,4000,x
X
cat >exchange.csv <<'X'
gpu,library,nodes,ranks,tokens,hidden,topk,experts,dispatch_sms,dispatch_dtype,dispatch_us,combine_sms,combine_us,version
H100-SXM-80GB,deepep-normal,1,8,8192,7168,8,256,24,fp8,970,24,1840,x
H100-SXM-80GB,deepep-normal,2,16,8192,7168,8,256,24,fp8,1460,24,3420,x
H100-SXM-80GB,deepep-normal,8,64,8192,7168,8,256,24,fp8,13000,24,25000,x
X
for t in moe exchange; do
	neutral $t.csv; "$M" score --kernels neutral/$t.csv -o $t 2>&1; cut -d, -f2- $t/score.csv
done
sed -i 's/,combine,bf16/,combine,int9/' neutral/exchange.csv; "$M" score --kernels neutral/exchange.csv -o none 2>&1
echo "gpu,m" >none.csv
echo "A100,1" >>none.csv
"$M" score --kernels none.csv -o none 2>&1
sed -i 's/,112,/,-1,/' neutral/vidur.csv
"$M" score --kernels neutral/vidur.csv -o none 2>&1
"$M" score --kernels --gemm vidur.csv -o none 2>&1
"$M" score --collectives vidur.csv --set ib.bw_share=1 -o none 2>&1
# GEMMs: types that a GPU does not have, casts in the time, taken out or predicted, loops that the limit of the board
# slows, the less the fewer calls they have, operands that the L2 cache holds no more (128 MB of 96) where tiles go down
# columns.
cat >gemm.csv <<'X'
gpu,library,dtype,scaling,m,n,k,time_us,cast_us,loop,calls
H100,cublas,bf16,,4096,4096,4096,230,,1s,
H100,cutlass,fp8,token,4096,4096,4096,150,20,1s,
H100,cutlass,fp8,token,4096,4096,4096,150,,1s,
H100,cutlass,fp4,nvfp4,4096,4096,4096,150,,1s,
A100,cutlass,fp8,token,4096,4096,4096,150,20,1s,
H100,cublas,bf16,,8192,8192,8192,1600,,short,1
H100,cublas,bf16,,8192,8192,8192,1600,,short,
H100,cublas,bf16,,8192,8192,8192,1600,,short,60
L40S,cutlass-sgl,fp8,token,16384,4096,4096,1862,,short,
L40S,cutlass-sgl,fp8,token,32768,4096,4096,7126,,short,
L40S,cutlass,fp8,token,32768,4096,4096,7126,,short,
X
"$M" score --gemm gemm.csv -o gemm 2>&1; cut -d, -f4-6,10-12 gemm/score.csv
sed -i '3s/,20,/,-20,/' gemm.csv; "$M" score --gemm gemm.csv -o none 2>&1
printf 'gpu,gpus,collective,bytes\nH100,8,all_reduce,64\n' >coll.csv; "$M" score --collectives coll.csv -o none 2>&1
finish
