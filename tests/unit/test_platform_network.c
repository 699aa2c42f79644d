/*
 * test_platform_network.c - networks of machines as Slurm and InfiniBand describe them become keys of a generated
 * platform, which makes leaves and pods of as many machines; those that are no tree are refused with a reason.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "hardware/platform/machine.h"
#include "hardware/platform/platform.h"
#include "shipped.h"

#define SWITCH(id, ports)          "switchguid=0x" id "(" id ")\nSwitch\t40 \"S-" id "\"\t\t# \"MF0;" id "\" lid 1 lmc 0\n" ports
#define HOST(port, id, what, rate) "[" port "]\t\"H-" id "\"[1](" id ") \t\t# \"" what "\" lid 7 " rate "\n"
#define UP(port, id, rate)         "[" port "]\t\"S-" id "\"[" port "]\t\t# \"MF0;" id "\" lid 1 " rate "\n"

static const struct {
	const char *text, *gpu;
	const char *keys, *notes; /* keys NULL: refused, `notes` stands in the reason */
} cases[] = {
	/* ---- Slurm: unequal leaves, a continued line, comments, unused keys */
	{ "SwitchName=s0 Nodes=n[1-8] # first\nSwitchName=s1 Nodes=n[09-12],m7,\\\nm8\nswitchname=top switches=s[0-1] "
	  "LinkSpeed=100G\n",
	  "T4", "gpu=T4 nodes=14 fabric=fat-tree leaves=8+6",
	  "LinkSpeed, ports (usual ones are taken), oversubscription (none)" },
	/* three levels; two brackets in a name; two switches above, as in a fat tree */
	{ "SwitchName=a Nodes=r[1-2]n[1-3]\nSwitchName=b Nodes=x\nSwitchName=c Nodes=y,z\nSwitchName=p Switches=a,b\n"
	  "SwitchName=q Switches=c\nSwitchName=t1 Switches=p,q\nSwitchName=t2 Switches=p,q\n",
	  "H100x4", "gpu=H100x4 nodes=9 fabric=fat-tree leaves=6+1/2", "usual ones are taken" },
	{ "SwitchName=t Switches=p,q\nSwitchName=p Switches=k,l\nSwitchName=q Switches=m,n,o\nSwitchName=k Nodes=x[1-2]\n"
	  "SwitchName=l Nodes=x[3-4]\nSwitchName=m Nodes=x[5-6]\nSwitchName=n Nodes=x[7-8]\nSwitchName=o Nodes=y\n",
	  "T4", "gpu=T4 nodes=9 fabric=fat-tree leaves=2x2/2x2+1", "usual ones are taken" },
	{ "BlockName=b1 Nodes=n[01-18]\nBlockName=b2 Nodes=n[19-36]\nBlockSizes=18\n", "T4",
	  "gpu=T4 nodes=36 fabric=fat-tree leaves=18x2", "what joins the blocks (one switch is taken), BlockSizes" },
	{ "BlockName=b0 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b1 BlockIndex=1 Nodes=n[3-4] BlockSize=2\n"
	  "AggregatedBlock=b[0-1] BlockIndex=2 Nodes=n[1-4] BlockSize=4\n",
	  "T4", "gpu=T4 nodes=4 fabric=fat-tree leaves=2x2", "BlockSize, AggregatedBlock" },
	{ "SwitchName=s0 Nodes=n[1-8]\n", "T4", "gpu=T4 nodes=8 fabric=fat-tree leaves=8", "usual ones are taken" },
	/* as `scontrol show topology` prints it */
	{ "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=s1 Level=0 LinkSpeed=1 Nodes=n3\n"
	  "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-3] Switches=s[0-1]\n",
	  "T4", "gpu=T4 nodes=3 fabric=fat-tree leaves=2+1", "Level, LinkSpeed" },
	{ "SwitchName=s0 Nodes=n[1-8]\n", NULL, NULL, "--gpu TYPE" },
	{ "SwitchName=s0 Nodes=n[1-8\n", "T4", NULL, "write name[1-4,7]" },
	{ "SwitchName=s0 Nodes=n[8-1]\n", "T4", NULL, "write name[1-4,7]" },
	{ "SwitchName=s0 Nodes=n[1-99999999]\n", "T4", NULL, "write name[1-4,7]" },
	{ "SwitchName=s0 Nodes=n[-3]\n", "T4", NULL, "write name[1-4,7]" },
	{ "SwitchName=s0 Nodes=n[1-1000][1-1000]\n", "T4", NULL, "more than" },
	{ "Nodes=n1\nSwitchName=s0\n", "T4", NULL, "without SwitchName=" },
	{ "SwitchName=s0 n1\n", "T4", NULL, "no KEY=VALUE" },
	{ "SwitchName=s0 Switches=s1\n", "T4", NULL, "no switch has machines" },
	{ "SwitchName=s0 Nodes=n1\nSwitchName=s1 Nodes=n2\n", "T4", NULL, "nothing joins switches 's0' and 's1'" },
	{ "SwitchName=s0 Nodes=n1\nSwitchName=s1 Nodes=n2\nSwitchName=m Switches=s0\nSwitchName=t Switches=m,s1\n",
	  "T4", NULL, "no tree of equal depth" },
	{ "SwitchName=s Nodes=n1\nSwitchName=a Switches=s\nSwitchName=b Switches=a\nSwitchName=c Switches=b\n", "T4",
	  NULL, "4 levels of switches" },
	/* ---- InfiniBand: three ports in, one out; a host with its driver's name; SHARP's own; text that is indented */
	{ "  " SWITCH("10", "  " HOST("1", "101", "n1 mlx5_0", "4xHDR") HOST("2", "102", "n2 mlx5_0", "4xHDR")
				    HOST("3", "103", "n3 mlx5_0", "4xHDR s=4 w=2") UP("39", "30", "4xHDR")
					    HOST("41", "11", "Mellanox Technologies Aggregation Node",
						 "4xHDR")) SWITCH("20", HOST("1", "104", "MT4123 ConnectX6 Mellanox",
									     "4xHDR") UP("39", "30", "4xHDR"))
		  SWITCH("30",
			 UP("1", "10", "4xHDR") UP(
				 "2", "20",
				 "4xHDR")) "caguid=0x101\nCa\t1 \"H-101\"\t\t# "
					   "\"n1 mlx5_0\"\n[1](101) \t\"S-10\"[1]\t\t# lid 11 lmc 0 \"MF0;10\" lid 1 4xHDR\n",
	  "T4", "gpu=T4 nodes=4 fabric=fat-tree leaves=3+1 network=ib nics=1 nic_GBps=25 oversub=2 sharp=1", "" },
	/* two rails; one that stores has a port of two; a single switch, other rates */
	{ SWITCH("10", HOST("1", "1", "a HCA-1", "4xNDR") HOST("2", "2", "b HCA-1", "4xNDR")
			       HOST("3", "3", "store p", "4xNDR") UP("9", "30", "4xNDR"))
		  SWITCH("20", HOST("1", "4", "a HCA-2", "4xNDR") HOST("2", "5", "b HCA-2", "4xNDR") UP(
				       "9", "30", "4xNDR")) SWITCH("30", UP("1", "10", "4xNDR") UP("2", "20", "4xNDR")),
	  "T4", "gpu=T4 nodes=2 fabric=rail leaves=2 network=ib nics=2 nic_GBps=50 oversub=2.5",
	  "hosts with half the ports of others" },
	{ SWITCH("10", HOST("1", "1", "a HCA-1", "4xEDR") HOST("2", "2", "b HCA-1", "4xFDR10")), "T4",
	  "gpu=T4 nodes=2 fabric=fat-tree leaves=2 network=ib nics=1 nic_GBps=8.75", "ports of 5 to 12.5 GB/s" },
	/* a few hosts of its own make a switch of switches no leaf */
	{ SWITCH("10", HOST("1", "1", "a", "2xHDR") HOST("2", "2", "b", "2xHDR") UP("8", "30", "4xHDR"))
		  SWITCH("20", HOST("1", "3", "c x", "2xHDR") UP("8", "30", "4xHDR"))
			  SWITCH("30", HOST("1", "4", "boss x", "4xHDR") UP("2", "10", "4xHDR") UP("3", "10", "4xHDR")
					       UP("4", "20", "4xHDR") UP("5", "20", "4xHDR") UP("6", "20", "4xHDR")),
	  "T4", "gpu=T4 nodes=3 fabric=fat-tree leaves=2+1 network=ib nics=1 nic_GBps=15.625 oversub=1",
	  "hosts on switches above others" },
	{ SWITCH("10", HOST("1", "1", "a x", "4xHDR") UP("8", "20", "4xHDR"))
		  SWITCH("20", HOST("1", "2", "b x", "4xHDR") UP("8", "10", "4xHDR")),
	  "T4", NULL, "no tree of equal depth" },
	{ SWITCH("10", HOST("1", "1", "a x", "fast")), "T4", NULL, "a port without its rate" },
};

static void networks(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct mq_arena a = MQ_ARENA_INIT;
		struct mq_err err = MQ_ERR_INIT;
		struct mq_machine *machine = mq_arena_array(&a, 1, struct mq_machine);
		const char *keys = "";
		uint32_t machines;
		struct mq_platform_spec spec;
		char *text = mq_arena_strdup(&a, cases[i].text);

		assert_true(mq_network_probe(text));
		enum mq_status status = mq_network_read(text, "net", cases[i].gpu, machine, &keys, &machines, &a, &err);
		const char *got = status != MQ_OK ? err.text : machine->unused ? machine->unused : "";
		if (status != (cases[i].keys ? MQ_OK : MQ_EINPUT) || !strstr(got, cases[i].notes) ||
		    (status == MQ_OK && strcmp(keys, cases[i].keys) != 0))
			fail_msg("%s\n%s\n'%s'", cases[i].text, got, keys);
		if (status == MQ_OK) {
			mq_platform_spec_init(&spec);
			assert_int_equal(mq_platform_spec_parse(keys, &spec, &a, &err), MQ_OK);
			assert_int_equal(spec.nodes, machines);
		}
		mq_arena_fini(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(networks) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
