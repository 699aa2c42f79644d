/* fuzz_onnx.c - the reader sim/model/formats/onnx.c on arbitrary bytes. */
#include "fuzz_format.h"

FUZZ_FORMAT(onnx);
