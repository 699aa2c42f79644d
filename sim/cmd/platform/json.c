/*
 * json.c - a platform for other programs: what `platform show --json` prints.
 */
#include "session/pages/page.h"
#include "cmd/platform/words.h"

static void put_number(FILE *f, const char *key, double value)
{
	fprintf(f, ", \"%s\": ", key);
	mq_json_put_f64(f, value);
}

static void put_device(const struct mq_device *d, uint32_t rank, FILE *f)
{
	fprintf(f, "%s\n  {\"rank\": %u, \"name\": ", rank ? "," : "", rank);
	mq_json_put_text(f, d->name);
	fputs(", \"type\": ", f);
	mq_json_put_text(f, d->type);
	fprintf(f, ", \"machine\": %u", d->node);
	put_number(f, "peak_flops", d->speed_flops);
	put_number(f, "memory_B", d->memory_B);
	put_number(f, "price_per_h", d->price_per_h);
	put_number(f, "power_W", d->power_W);
	fputc('}', f);
}

void mq_platform_json(const struct mq_cluster *c, FILE *f)
{
	fputs("{\"name\": ", f);
	mq_json_put_text(f, c->name);
	fprintf(f, ", \"machines\": %u,\n \"devices\": [", c->n_nodes);
	for (uint32_t i = 0; i < c->n_devices; i++)
		put_device(&c->device[i], i, f);
	fputs("],\n \"links\": [", f);
	for (uint32_t i = 0; i < c->n_links; i++) {
		const struct mq_link *l = &c->link[i];

		fprintf(f, "%s\n  {\"name\": ", i ? "," : "");
		mq_json_put_text(f, l->name);
		fprintf(f, ", \"class\": \"%s\"", mq_link_class_name(l->class));
		put_number(f, "bandwidth_Bps", l->bw_Bps);
		put_number(f, "latency_s", l->lat_s);
		fputc('}', f);
	}
	fputs("]}\n", f);
}
