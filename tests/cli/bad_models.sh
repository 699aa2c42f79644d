. "$ROOT/tests/cli/lib.sh.inc"
# Broken model files: exit 2, one line with the file, the place and the value.
c=$ROOT/tests/corpus
bad_file() { try 2 "$(basename "$1")[^ ]*: .*$2" model "$1"; }
bad_file $c/placement/cycle.json 'is on a cycle'
bad_file $c/placement/negative.json 'nodes\[0\]: "fpgaLatency" is -1; give'
bad_file $c/placement/nan.json "near 'NaN'"
bad_file $c/placement/same-id.json 'two nodes have the id 1'
bad_file $c/placement/no-node.json 'edges\[0\]: "destId" is 5'
bad_file $c/placement/types.json '"nodes" is missing or no array'
bad_file $c/pipedream/no-batch.txt 'batch=N'
bad_file $c/pipedream/negative.txt 'forward_compute_time= no number'
bad_file $c/pipedream/nan.txt 'forward_compute_time= no number'
bad_file $c/pipedream/cycle.txt 'is on a cycle'
bad_file $c/pipedream/broken.txt 'not a node'
bad_file $c/pipedream/no-node.txt "no node is called 'node7'"
bad_file $c/huggingface/unknown.json '"model_type" is falcon9, not a family that is read .did you mean falcon'
bad_file $c/huggingface/negative.json '"model_type" is missing'
bad_file $c/huggingface/overflow.json 'overflow'
bad_file $c/huggingface/types.json '"hidden_size" is an array; give a whole number'
bad_file $c/huggingface/t5_types.json '"num_layers" is an array; give a whole number'
bad_file $c/huggingface/switch.json '"decoder_sparse_step" gives moe_every=4, another key moe_every=2'
bad_file $c/huggingface/flux_types.json '"guidance_embeds" is a number; give true or false'
bad_file $c/huggingface/heads.json 'hidden=33 is not a multiple of heads=4'
bad_file $c/onnx/attention.onnx "axis 1 of input 'ids', length is left open; give --seq N"
try 0 '^ops ' model $c/onnx/attention.onnx --seq 64
for m in resnet50 mask_rcnn; do try 2 "\-\-seq 64: model '$m' has no sequences of tokens" model $m --seq 64; done
try 2 'top_k, capacity and moe_every are of experts; give experts=' model t5:capacity=5
bad_file $c/onnx/channels.onnx '3 input channels do not fit a weight for 5'
bad_file $c/onnx/cycle.onnx "uses 'c' before any node makes it"
bad_file $c/onnx/negative.onnx 'axis 2 has the size -3'
bad_file $c/onnx/nested.onnx 'nested deeper than 32 levels'
bad_file $c/onnx/twice.onnx "makes 'y' a second time"
bad_file $c/onnx/unknown-op.onnx 'this operator is not supported'
head -c 200 "$c/onnx/cnn.onnx" >cut.onnx; bad_file cut.onnx 'not a complete ONNX model'
head -c 90 "$c/huggingface/llama.json" >config.json; bad_file config.json 'complete JSON'
: >empty.onnx; try 2 "'empty.onnx' is empty" model empty.onnx
mkdir folder; try 2 "folder/config.json" model folder
try 2 "'/dev/zero' is not a regular file" model /dev/zero
try 2 'did you mean .batch' model "$c/pipedream/small.txt:bach=2"
try 2 'batch=0 is out of range' model "$c/pipedream/small.txt:batch=0"
try 2 'neither true nor false' model "$c/huggingface/gpt2.json:fused_attention=maybe"
try 2 'take no options' model "$c/placement/training.json:a=b"
finish
