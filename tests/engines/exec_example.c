/* A whole engine in C, without a JSON library: data parallelism with 1, 2, 4, ... micro-batches.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number after `"key":`, or 0. */
static double number(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtod(at + strlen(key), NULL) : 0;
}

int main(void)
{
	char *line = NULL;
	size_t room = 0;
	int devices = 0, batch = 0, micro_batches = 1;

	setlinebuf(stdout);
	while (getline(&line, &room, stdin) > 0) {
		if (strstr(line, "\"type\":\"start\"")) {
			for (const char *c = line; (c = strstr(c, "\"rank\":")); c++)
				devices++;
			batch = (int)number(line, "\"batch\":");
			puts(batch % devices ? "{\"error\": \"the batch is no multiple of the devices\"}" :
					       "{\"ready\": true}");
		} else if (strstr(line, "\"type\":\"propose\"")) {
			if (batch % (devices * micro_batches))
				puts("{\"done\": true}");
			else
				printf("{\"shape\": {\"dp\": %d, \"micro_batches\": %d}}\n", devices, micro_batches);
			micro_batches *= 2;
		} else if (strstr(line, "\"type\":\"stop\"")) {
			break;
		}
	}
	free(line);
	return 0;
}
