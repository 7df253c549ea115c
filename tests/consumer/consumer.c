// consumer.c: a user's program, compiled as C and as C++ against an installed libattn. It uses the
// public header and nothing of this tree, and checks one result that can be told without a
// calculator.
#include <attn.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// With q = 0 every key gets the same weight: the output is the mean of the values, the LSE
// log(number of keys).
int main(void)
{
    enum { KEYS = 4, DIM = 2 };
    const float q[DIM] = {0.0f, 0.0f};
    const float k[KEYS][DIM] = {{1.0f, 2.0f}, {3.0f, 4.0f}, {5.0f, 6.0f}, {7.0f, 8.0f}};
    const float v[KEYS][DIM] = {{1.0f, 10.0f}, {2.0f, 20.0f}, {3.0f, 30.0f}, {6.0f, 60.0f}};
    float o[DIM] = {NAN, NAN};
    float lse = NAN;
    attn_context_t *context = NULL;
    attn_plan_t *plan = NULL;
    attn_desc_t desc;
    attn_forward_args_t args;

    attn_desc_init(&desc, ATTN_F32);
    attn_desc_set_shape(&desc, 1, 1, KEYS, 1, 1, DIM);
    desc.wants_lse = 1;
    attn_forward_args_init(&args);
    args.q = q;
    args.k = k;
    args.v = v;
    args.o = o;
    args.lse = &lse;
    if (attn_context_create(NULL, &context) != ATTN_OK ||
        attn_plan_create(context, &desc, ATTN_FORWARD, &plan) != ATTN_OK) {
        fprintf(stderr, "consumer: no plan: %s\n", attn_last_error());
        return 1;
    }
    const size_t workspace_bytes = attn_plan_workspace_bytes(plan);
    void *workspace = malloc(workspace_bytes > 0 ? workspace_bytes : 1);
    if (attn_forward(plan, &args, workspace, workspace_bytes, NULL) != ATTN_OK) {
        fprintf(stderr, "consumer: no result: %s\n", attn_last_error());
        return 1;
    }
    free(workspace);
    attn_plan_destroy(plan);
    attn_context_destroy(context);
    if (!(fabsf(o[0] - 3.0f) < 1e-5f && fabsf(o[1] - 30.0f) < 1e-4f &&
          fabsf(lse - logf(4.0f)) < 1e-5f)) {
        fprintf(stderr, "consumer: o = %g %g, lse = %g; expected 3 30, log 4\n", (double)o[0],
                (double)o[1], (double)lse);
        return 1;
    }
    printf("libattn %s: o = %g %g, lse = %g\n", attn_version_string(), (double)o[0], (double)o[1],
           (double)lse);
    return 0;
}
