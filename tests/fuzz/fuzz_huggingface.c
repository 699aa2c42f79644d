/* fuzz_huggingface.c - the reader sim/model/formats/huggingface.c on arbitrary bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_format.h"

FUZZ_FORMAT(huggingface);
