/* fuzz_pipedream.c - the reader sim/formats/pipedream.c on arbitrary bytes. */
#include "fuzz_format.h"

FUZZ_FORMAT(pipedream);
