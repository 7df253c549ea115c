// attention_map.c: see attention_map.h.
#include "attention_map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention_row.h"
#include "compare.h"

static int check_size(const struct row_sequence *seq, struct io_error *err)
{
    if (seq->rows_q < 1 || seq->len_kv < 1) {
        return io_fail(err, "the sequence has %lld rows and %lld keys: nothing to draw",
                       (long long)seq->rows_q, (long long)seq->len_kv);
    }
    if (seq->rows_q > ATTENTION_MAP_MAX || seq->len_kv > ATTENTION_MAP_MAX) {
        return io_fail(err, "%lld rows and %lld keys: a map has at most %d of each",
                       (long long)seq->rows_q, (long long)seq->len_kv, ATTENTION_MAP_MAX);
    }
    return 0;
}

static void fill_row(const struct problem *problem, const struct row_sequence *seq, int64_t h,
                     int64_t i, float *scratch, struct attention_map *map)
{
    const attn_desc_t *d = &problem->desc;
    float *row = map->weights + i * map->keys;
    float *scores = scratch + 2 * d->d_qk;
    row_scores(d, &problem->args.in, seq, h, i, scratch, row, NULL);
    memcpy(scores, row, (size_t)map->keys * sizeof(float));
    map->lse[i] = row_softmax(d, &problem->args.in, h, map->keys, row);
    for (int64_t j = 0; j < map->keys; j++) {
        if (scores[j] == -INFINITY) {
            row[j] = -1.0f;
        } else if (row[j] > map->largest) {
            map->largest = row[j];
        }
    }
}

int attention_map_create(const struct problem *problem, int64_t b, int64_t h,
                         struct attention_map *map, struct io_error *err)
{
    const attn_desc_t *d = &problem->desc;
    memset(map, 0, sizeof(*map));
    if (b < 0 || b >= d->batch || h < 0 || h >= d->heads_q) {
        return io_fail(err, "sequence %lld, head %lld: there are %lld and %lld, counted from 0",
                       (long long)b, (long long)h, (long long)d->batch, (long long)d->heads_q);
    }
    const struct row_sequence seq = row_sequence_at(d, &problem->args.in, b);
    if (check_size(&seq, err)) {
        return -1;
    }
    map->rows = seq.rows_q;
    map->keys = seq.len_kv;
    map->weights = malloc((size_t)(map->rows * map->keys) * sizeof(float));
    map->lse = malloc((size_t)map->rows * sizeof(float));
    float *scratch = malloc((size_t)(2 * d->d_qk + map->keys) * sizeof(float));
    if (!map->weights || !map->lse || !scratch) {
        free(scratch);
        attention_map_destroy(map);
        return io_fail(err, "out of memory for a map of %lld x %lld", (long long)seq.rows_q,
                       (long long)seq.len_kv);
    }
    for (int64_t i = 0; i < map->rows; i++) {
        fill_row(problem, &seq, h, i, scratch, map);
    }
    free(scratch);
    return 0;
}

void attention_map_destroy(struct attention_map *map)
{
    free(map->weights);
    free(map->lse);
    memset(map, 0, sizeof(*map));
}

int attention_map_verify(const struct attention_map *map, const struct problem *problem, int64_t b,
                         int64_t h, struct io_error *err)
{
    const attn_desc_t *d = &problem->desc;
    const struct row_sequence seq = row_sequence_at(d, &problem->args.in, b);
    const float *lse = problem->args.in.lse;
    // Rounding of the scores to the inputs' type and of the sums to fp32, with room.
    const double unit = compare_unit_roundoff(problem->tensors[OPERAND_Q].dtype);
    for (int64_t i = 0; i < map->rows; i++) {
        const double ours = (double)map->lse[i];
        const double theirs = (double)lse[row_lse_offset(d, &seq, i, h)];
        const bool same_special = (isnan(ours) && isnan(theirs)) || ours == theirs;
        if (!same_special && !(fabs(ours - theirs) <= (4.0 * unit + 1e-4) * (1.0 + fabs(ours)))) {
            return io_fail(err, "row %lld: lse is %.9g by the map and %.9g by the library",
                           (long long)i, ours, theirs);
        }
    }
    return 0;
}
