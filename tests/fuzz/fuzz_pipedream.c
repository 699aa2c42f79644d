/* fuzz_pipedream.c - the reader sim/model/formats/pipedream.c on arbitrary bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_format.h"

FUZZ_FORMAT(pipedream);
