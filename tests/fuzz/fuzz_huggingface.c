/* fuzz_huggingface.c - the reader sim/model/formats/huggingface.c on arbitrary bytes. */
#include "fuzz_format.h"

FUZZ_FORMAT(huggingface);
