// hello.c: attention of 4 queries over 4 keys, 2 heads of 8.
#include <attn.h>
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    float q[4][2][8] = {{{1}}}, k[4][2][8] = {{{1}}}, v[4][2][8] = {{{1}}}, o[4][2][8];
    attn_desc_t desc;
    attn_desc_init(&desc, ATTN_F32);
    attn_desc_set_shape(&desc, 1, 4, 4, 2, 2, 8); // batch, s_q, s_kv, heads_q, heads_kv, dim
    attn_plan_t *plan = NULL;
    attn_status_t status = attn_plan_create(NULL, &desc, ATTN_FORWARD, &plan);
    size_t bytes = status ? 0 : attn_plan_workspace_bytes(plan);
    void *workspace = malloc(bytes + 1);
    attn_forward_args_t args = {.struct_size = sizeof(args), .q = q, .k = k, .v = v, .o = o};
    status = status ? status : attn_forward(plan, &args, workspace, bytes, NULL);
    printf("%s %g\n", status ? attn_last_error() : "o[0] =", status ? 0.0 : o[0][0][0]);
    attn_plan_destroy(plan);
    return free(workspace), status;
}
