// Probes that read words and write words.
#include "prepare.h"
#include "probe_table.h"
#include <string.h>

static void add_words(struct run *run, bool has_zeros)
{
    const struct probe_words *words = &run->probe->words;
    struct probe_params *p = run_params(run);
    uint32_t *in = run_alloc(4 * (size_t)words->in);
    uint32_t *out = run_alloc(4 * (size_t)words->out);
    fill_words(&run->rng, p->words, PROBE_WORDS, FILL_BITS);
    fill_words(&run->rng, in, words->in, words->fill);
    fill_words(&run->rng, out, words->out, words->fill); // for what adds to it
    if (has_zeros) {
        memset(out, 0, 4 * (size_t)words->out);
    }
    p->in = run_input(run, "in", in, 4 * (size_t)words->in);
    p->out = run_output(run, "out", out, 4 * (size_t)words->out, EMU_READ_WRITE, words->comparison);
}

void prepare_words(struct run *run)
{
    add_words(run, false);
}

void prepare_flags(struct run *run)
{
    run->resident = run->grid[0];
    add_words(run, true);
}
