/* spread.c - see spread.h. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/simulate/spread.h"

#include "schedule/columns.h"

enum mq_status mq_spread_read(struct mq_spread_asked *asked, struct mq_arena *arena, struct mq_err *err)
{
	if (asked->jitter) {
		mq_opt_defaults(mq_jitter_opts, &asked->draw);
		MQ_TRY(mq_opt_parse(mq_jitter_opts, &asked->draw, "--jitter", asked->jitter, arena, err));
	}
	if (!asked->failures)
		return MQ_OK;
	mq_opt_defaults(mq_failures_opts, &asked->fail);
	MQ_TRY(mq_opt_parse(mq_failures_opts, &asked->fail, "--failures", asked->failures, arena, err));
	if (!(asked->fail.mtbf_h > 0))
		return mq_bad(err,
			      "--failures %s: mtbf_h is missing: give the mean time between failures of "
			      "one device, hours",
			      asked->failures);
	return MQ_OK;
}

static enum mq_status write_draws(const struct mq_spread *s, const struct mq_jitter_samples *d, struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_table_create(&w, MQ_TABLE_draws, s->dir, &s->session->arena, err));
	for (uint32_t i = 0; i < d->n; i++)
		mq_csv_row(&w, "%u,%g", i, d->step_s[i]);
	return mq_csv_close(&w, err);
}

static enum mq_status say_draws(const struct mq_spread *s, const struct mq_jitter *jitter, FILE *words,
				struct mq_err *err)
{
	char p50[32], p90[32], p99[32], mean[32];
	struct mq_jitter_samples d;

	MQ_TRY(mq_session_jitter_sample(s->session, s->plan, jitter, s->analytic, &d, err));
	if (d.none)
		return mq_fail(err, mq_verdict_status(d.refused.verdict),
			       "--jitter: every rank is simulated, and that is %s: %s",
			       mq_verdict_name(d.refused.verdict), d.refused.message);
	if (s->json)
		fprintf(words,
			", \"step_p50_s\": %.9g, \"step_p90_s\": %.9g, \"step_p99_s\": %.9g, \"step_mean_s\": %.9g",
			d.p50_s, d.p90_s, d.p99_s, mq_round9(d.mean_s));
	else
		fprintf(words, "step time over %u draws: p50 %s, p90 %s, p99 %s, mean %s (%+.1f %%)\n", d.n,
			mq_text_s(d.p50_s, p50), mq_text_s(d.p90_s, p90), mq_text_s(d.p99_s, p99),
			mq_text_s(d.mean_s, mean), 100 * (d.mean_s / s->result->step_time_s - 1));
	return s->dir ? write_draws(s, &d, err) : MQ_OK;
}

static void say_goodput(const struct mq_spread *s, const struct mq_failures *failures, FILE *words)
{
	struct mq_goodput g = mq_session_goodput(s->session, s->plan, s->result, failures);
	char bytes[32], write[32];

	if (s->json)
		fprintf(words,
			", \"goodput\": %.9g, \"checkpoint_interval_s\": %.9g, \"mtbf_s\": %.9g, "
			"\"checkpoint_B\": %.9g, \"checkpoint_s\": %.9g",
			g.goodput, g.interval_s, g.mtbf_s, g.checkpoint_B, g.checkpoint_s);
	else
		fprintf(words, "goodput %.2f %%: a failure every %.4g h, %s saved in %s every %.4g min\n",
			100 * g.goodput, g.mtbf_s / 3600, mq_text_B(g.checkpoint_B, bytes),
			mq_text_s(g.checkpoint_s, write), g.interval_s / 60);
}

enum mq_status mq_spread_say(const struct mq_spread *s, const struct mq_spread_asked *asked, FILE *words,
			     struct mq_err *err)
{
	if (asked->draw.draws)
		MQ_TRY(say_draws(s, &asked->draw, words, err));
	if (asked->fail.mtbf_h > 0)
		say_goodput(s, &asked->fail, words);
	return MQ_OK;
}
