#include "trainer/units.h"

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

const struct unit_layout *units_at(const struct units *u, int unit)
{
    if (unit == 0)
        return &u->embed;
    return unit == u->n - 1 ? &u->head : &u->layer;
}

int units_slot(const struct units *u, int unit)
{
    return u->tied && unit == 0 ? 2 : unit & 1;
}

void units_make(const struct model *m, int shard, struct units *out)
{
    *out = (struct units){ .n = m->layers + 2, .shard = shard, .tied = m->tied };
    unit_layout(m, UNIT_EMBED, shard, &out->embed);
    unit_layout(m, UNIT_LAYER, shard, &out->layer);
    unit_layout(m, UNIT_HEAD, shard, &out->head);
    for (int i = 0; i < out->n; i++) {
        int slot = units_slot(out, i);
        out->slot[slot] = max64(out->slot[slot], units_at(out, i)->padded);
        out->flat_count += units_at(out, i)->padded;
    }
    out->shard_count = out->flat_count / shard;
    out->ring_count = out->slot[0] + out->slot[1] + out->slot[2];
}

int64_t units_part(const struct units *u, int unit)
{
    return units_at(u, unit)->padded / u->shard;
}

int64_t units_flat_offset(const struct units *u, int unit)
{
    if (unit == 0)
        return 0;
    return u->embed.padded + (unit - 1) * u->layer.padded;
}

int64_t units_shard_offset(const struct units *u, int unit)
{
    return units_flat_offset(u, unit) / u->shard;
}

int64_t units_ring_offset(const struct units *u, int unit)
{
    int64_t at = 0;

    for (int i = 0; i < units_slot(u, unit); i++)
        at += u->slot[i];
    return at;
}
