/* The words of launch scripts; worked out with bash. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/shell.h"

static void expect(const char *text, const char *want)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_script script;
	const char *all = "";

	assert_int_equal(mq_shell_read(text, &arena, &script, &err), MQ_OK);
	for (const char **word = script.word; *word; word++)
		all = mq_arena_printf(&arena, "%s[%s]", all, *word);
	assert_string_equal(all, want);
	mq_arena_fini(&arena);
}

static void test_words(void **state)
{
	(void)state;
	expect("a \\\n b=c 'd e' \"f'g\" h\\ i # j\nk", "[a][b=c][d e][f'g][h i][k]");
	expect("x \"\" ''", "[x][][]");
	expect("N=8 --n $N --m=${N} \"${N}x\" '$N' $M ${M:-4} $((N*2))", "[--n][8][--m=8][8x][$N][$M][4][16]");
}

static void test_arrays(void **state)
{
	(void)state;
	expect("A=( --x 1 \"--y z\" )\nB=\"--p 2 \\\n --q\"\nA+=(w)\nrun ${A[@]} \"${A[@]}\" $B \"$B\"",
	       "[run][--x][1][--y][z][w][--x][1][--y z][w][--p][2][--q][--p 2  --q]");
	expect("A=1;A=${A}2\nexport C=$A\n$C", "[12]");
}

static void test_values(void **state)
{
	(void)state;
	expect("N=${NODES:-\"2\"}; M=${X:-${Y:-'a b'}}\nrun $N \"$M\" ${M} ${N:+yes} ${Z:+no} ${N:-3}",
	       "[run][2][a b][a][b][yes][2]");
	expect("G=8 N=4\nW=$(($G*$N)) T=$((W / (2 + 2) % 5))\nrun $W $T $(expr $W \\* 2) $((W ** 2)) $((nope + 1))",
	       "[run][32][3][64][1024][$((nope + 1))]");
	expect("A=(1 'b c' 3); run ${A[1]} ${#A[@]} \"${A[*]}\" ${A[9]} ${#A} \"x$@y\" \"$@\" $#",
	       "[run][b][c][3][1 b c 3][${A[9]}][1][xy][0]");
	expect("S=Llama; run ${S,,} ${S^^} ${S/a/b} $'q' $(date +%F) `hostname`",
	       "[run][llama][LLAMA][${S/a/b}][q][$(date +%F)][`hostname`]");
	expect(": ${T:=5}; export -p U=6 V; run $T$U | tee log 2>&1 >x; next &> y",
	       "[:][5][V][run][56][tee][log][next]");
	expect("#SBATCH --nodes=4\n#SBATCH --gpus-per-node=h100:8\nrun $SLURM_NNODES $SLURM_GPUS_PER_NODE",
	       "[run][4][8]");
}

static void test_commands(void **state)
{
	(void)state;
	expect("B=(b c); C=\"a ${B[@]}\"; srun -l bash -c \"R=$P $C --x\"; eval \"e 'f g'\"",
	       "[srun][-l][bash][-c][a][b][c][--x][e][f g]");
	expect("f() { run $1 \"$2\" $#; }\nfunction g {\n f $1 x\n}\nf 'a b' c; g 7; f",
	       "[run][a][b][c][2][run][7][x][2][run][$1][$2][0]");
	expect("cat <<EOF > f\n--a 1\nEOF\ncat <<-'E'\n\t--b\n\tE\nrun (a; b) { c; }", "[cat][cat][run][a][b][c]");
	/* a here-document that a shell reads is a script, in which what is escaped is of that shell */
	expect("N=2; sbatch -p x <<EOF\n#!/bin/bash\n#SBATCH --nodes=4\nM=8\nrun $N \\$M \\$SLURM_NNODES\nEOF\nend",
	       "[sbatch][-p][x][run][2][8][4][end]");
	expect("cat <<'E' | srun bash -s\na \\$x\nE\nb", "[cat][srun][bash][-s][a][$x][b]");
	expect("bash f.sh <<E\na\nE\nif false; then\nsh <<E\nb\nE\nfi\nsh <<E\nc", "[bash][f.sh][sh]");
	expect("false || a; true && b; [ 1 = 2 ] && c; ! false && d; cd /x || exit 1; e", "[a][true][b][d][cd][/x][e]");
}

/* Conditions on what the script says are decided; its arguments and unassigned names are empty. */
static void test_conditions(void **state)
{
	(void)state;
	expect("M=13B\nif [ $M = 7B ]; then H=1\nelif [[ \"$M\" == 13* && -n $M ]]; then H=2\nelse H=3; fi\nrun $H",
	       "[run][2]");
	expect("case ${1:-7B} in 7B|8B) H=1 ;; *) H=2 ;; esac; if [ -z \"$X\" ]; then run $H; fi", "[run][1]");
	expect("N=4; if (( N > 2 )); then run big; else run small; fi; [ $N -ge 5 -o $N -eq 4 ] && run four",
	       "[run][big][run][four]");
	expect("for i in one; do run $i; done; while [[ $# -gt 0 ]]; do case $1 in -x) N=9; esac; shift; done; run $N",
	       "[run][one][run][$N]");
}

/* What nobody decides is told apart. */
static void test_doubt(void **state)
{
	static const char text[] = "A=1; B=2; if [ -f x ]; then A=5; O='--o 1'; fi\nfor b in 1 2; do run --b $b; done\n"
				   "go $A $B $O";
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_script script;
	const char *all = "";

	(void)state;
	expect(text, "[go][$A][2][$O]");
	assert_int_equal(mq_shell_read(text, &arena, &script, NULL), MQ_OK);
	for (const char **word = script.doubt; *word; word++)
		all = mq_arena_printf(&arena, "%s[%s]", all, *word);
	assert_string_equal(all, "[1][2][run][--b][$b][1][5][--o][1]");
	mq_arena_fini(&arena);
}

static void test_limits(void **state)
{
	char text[4096] = "A=xxxxxxxxxxxxxxxx\n";
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_script script;

	(void)state;
	for (int i = 0; i < 40; i++)
		strcat(text, "A=$A$A\n");
	assert_int_equal(mq_shell_read(text, &arena, &script, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "more than 1048576 bytes"));
	expect("${ \" ' $( (", "[${ \" ' $( (]");
	mq_arena_fini(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),    cmocka_unit_test(test_arrays),     cmocka_unit_test(test_values),
		cmocka_unit_test(test_commands), cmocka_unit_test(test_conditions), cmocka_unit_test(test_doubt),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
