/* fuzz_onnx.c - the reader sim/model/formats/onnx.c on arbitrary bytes. SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_format.h"

FUZZ_FORMAT(onnx);
