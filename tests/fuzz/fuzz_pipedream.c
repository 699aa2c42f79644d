/* fuzz_pipedream.c - the reader sim/model/formats/pipedream.c on arbitrary bytes. */
#include "fuzz_format.h"

FUZZ_FORMAT(pipedream);
