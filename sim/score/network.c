/*
 * network.c - a machine's network in words: "4x100 Gb/s RoCE", "1x EDR InfiniBand 100 Gb/s per node",
 * "3200 Gb/s EFA", "8x NDR". See mq_network_read.
 *
 * A number of ports before a rate or a grade ("4x200", "8x NDR") makes that the rate of each; without one a
 * rate is that of all ports of a machine, or of a GPU where the words say so.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "score/row.h"

/* Gb/s of one port of a grade of InfiniBand; 0 = none is named. */
static double grade_Gbps(const char *words)
{
	static const struct {
		const char *word;
		double Gbps;
	} grade[] = {
		{ "XDR", 800 }, { "NDR200", 200 }, { "NDR", 400 }, { "HDR100", 100 },       { "HDR", 200 },
		{ "EDR", 100 }, { "FDR", 56 },     { "QDR", 32 },  { "OmniPath 100", 100 }, { "Omni-Path 100", 100 },
	};

	for (size_t i = 0; i < sizeof(grade) / sizeof(*grade); i++)
		if (mq_explicit(words, grade[i].word))
			return grade[i].Gbps;
	return 0;
}

/* The number that ends right before `at`, blanks apart; 0 = none. */
static double number_before(const char *words, const char *at)
{
	const char *start;

	while (at > words && at[-1] == ' ')
		at--;
	start = at;
	while (start > words && (isdigit((unsigned char)start[-1]) || start[-1] == '.'))
		start--;
	return start < at ? strtod(start, NULL) : 0;
}

/* The number right before a unit of rate, in Gb/s; 0 = there is none. A bare G ("8x400G", "25G Ethernet") is one. */
static double stated_Gbps(const char *words)
{
	static const struct {
		const char *unit;
		double Gbps;
	} units[] = { { "Gb/s", 1 },    { "Gbps", 1 },    { "Gbit/s", 1 }, { "GbE", 1 }, { "GigE", 1 },
		      { "Tb/s", 1000 }, { "Tbps", 1000 }, { "GB/s", 8 },   { "Gb", 1 },  { "G", 1 } };

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		size_t n = strlen(units[i].unit);

		for (const char *at = words; (at = strstr(at, units[i].unit)); at++) {
			double rate = isalnum((unsigned char)at[n]) ? 0 : number_before(words, at);

			if (rate > 0)
				return rate * units[i].Gbps;
		}
	}
	return 0;
}

/* N of "Nx..." or "N x ..."; 0 = none. */
static double count_of(const char *words)
{
	for (const char *at = words; (at = strchr(at, 'x')); at++) {
		const char *start = at;

		while (start > words && start[-1] == ' ')
			start--;
		while (start > words && isdigit((unsigned char)start[-1]))
			start--;
		if (start < at && isdigit((unsigned char)*start) && (at[1] == ' ' || isalnum((unsigned char)at[1])))
			return strtod(start, NULL);
	}
	return 0;
}

static const char *fabric_of(const char *words)
{
	static const struct {
		const char *word, *name;
	} known[] = {
		{ "EFA", "efa" },       { "TCPX", "tcpxo" },     { "FasTrak", "tcpxo" }, { "gIB", "gib" },
		{ "RoCE", "roce" },     { "Slingshot", "roce" }, { "Omni", "omnipath" }, { "OPA", "omnipath" },
		{ "InfiniBand", "ib" }, { "DR", "ib" },          { "IB", "ib" },         { "Ethernet", "eth" },
		{ "GbE", "eth" },       { "TCP", "eth" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (strstr(words, known[i].word))
			return known[i].name;
	return NULL;
}

bool mq_network_read(const char *words, uint32_t gpus_per_node, struct mq_network_words *out)
{
	double rate = stated_Gbps(words), grade = grade_Gbps(words), ports = count_of(words);
	bool each = ports >= 1;

	*out = (struct mq_network_words){ .ports = ports, .fabric = fabric_of(words) };
	if (!(rate > 0))
		rate = grade; /* a grade is a port's */
	if (!(rate > 0) || ports > 64)
		return false;
	if (mq_explicit(words, "per GPU") || mq_explicit(words, "/GPU"))
		rate *= gpus_per_node;
	else if (each)
		rate *= ports;
	out->node_GBps = rate / 8;
	return true;
}
