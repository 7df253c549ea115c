// Probes that read words and write words.
#include "prepare.h"
#include "probe_table.h"

static void add_words(struct run *run)
{
    const struct probe_words *words = &run->probe->words;
    struct probe_params *p = run_params(run);
    uint32_t *in = run_alloc(4 * (size_t)words->in);
    uint32_t *out = run_alloc(4 * (size_t)words->out);
    fill_words(&run->rng, in, words->in, words->fill);
    fill_words(&run->rng, out, words->out, words->fill); // for what adds to it
    p->in = run_input(run, "in", in, 4 * (size_t)words->in);
    p->out = run_output(run, "out", out, 4 * (size_t)words->out, EMU_READ_WRITE, words->comparison);
}

void prepare_words(struct run *run)
{
    uint32_t *words = run_params(run)->words;
    fill_words(&run->rng, words, PROBE_WORDS, FILL_BITS);
    add_words(run);
}
