/* result.c - see result.h. */
#include "core/result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Through decimal text: the one rounding that a table, a cache and a reader of either agree on. */
double mq_round9(double value)
{
	char text[40];

	if (!isfinite(value))
		return value;
	snprintf(text, sizeof(text), "%.8e", value);
	return strtod(text, NULL);
}
