/* json.c - a platform as JSON: `platform show --json`. SPDX-License-Identifier: Apache-2.0 */
#include "session/pages/page.h"
#include "cmd/platform/words.h"

static void put_device(const struct mq_device *d, uint32_t rank, FILE *f)
{
	fprintf(f, "%s\n  {\"rank\": %u, \"name\": ", rank ? "," : "", rank);
	mq_json_put_text(f, d->name);
	mq_json_add_text(f, "type", d->type);
	fprintf(f, ", \"machine\": %u", d->node);
	mq_json_add_f64(f, "peak_flops", d->speed_flops);
	mq_json_add_f64(f, "memory_B", d->memory_B);
	mq_json_add_f64(f, "price_per_h", d->price_per_h);
	mq_json_add_f64(f, "power_W", d->power_W);
	fputc('}', f);
}

void mq_platform_json(const struct mq_cluster *c, FILE *f)
{
	mq_json_put_after(f, "{\"name\": ", c->name);
	fprintf(f, ", \"machines\": %u,\n \"devices\": [", c->n_nodes);
	for (uint32_t i = 0; i < c->n_devices; i++)
		put_device(&c->device[i], i, f);
	fputs("],\n \"links\": [", f);
	for (uint32_t i = 0; i < c->n_links; i++) {
		const struct mq_link *l = &c->link[i];

		fprintf(f, "%s\n  {\"name\": ", i ? "," : "");
		mq_json_put_text(f, l->name);
		fprintf(f, ", \"class\": \"%s\"", mq_link_class_name(l->class));
		mq_json_add_f64(f, "bandwidth_Bps", l->bw_Bps);
		mq_json_add_f64(f, "latency_s", l->lat_s);
		fputc('}', f);
	}
	fputs("]}\n", f);
}
