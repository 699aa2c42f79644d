/* fuzz_graph.c - the reader sim/model/formats/graph.c on arbitrary bytes. */
#include "fuzz_format.h"

FUZZ_FORMAT(graph);
