/* fuzz_placement.c - the reader sim/model/formats/placement.c on arbitrary bytes. */
#include "fuzz_format.h"

FUZZ_FORMAT(placement);
