// ldmatrix and stmatrix in every form: what each lane gets from rows at random places, and the
// image of shared memory after stores to random rows.
#include "../../../src/device/ptx/matrix.h"
#include "../../../src/device/ptx/warp.h"
#include "../probe.h"

enum { MATRIX_ROWS = 64, MATRIX_WORDS = MATRIX_ROWS * 4, MATRIX_REGISTERS = 14 };

// Rows of the six loads and the six stores: a permutation each, so that stores do not overlap.
DEVICE uint32_t row_address(const struct probe_params *p, uint32_t tile, uint32_t form)
{
    uint32_t lane = thread_idx();
    uint32_t turn = p->words[form];
    return tile + ((lane * (2 * turn + 1) + turn) % MATRIX_ROWS) * 16;
}

DEVICE void store_form(const struct probe_params *p, uint32_t form, const uint32_t *r)
{
    uint32_t tile = dynamic_smem() + PROBE_DATA + form * MATRIX_WORDS * 4;
    uint32_t row = row_address(p, tile, form);
    switch (form) {
    case 0: stmatrix_x1(row, r); break;
    case 1: stmatrix_x2(row, r); break;
    case 2: stmatrix_x4(row, r); break;
    case 3: stmatrix_x1_trans(row, r); break;
    case 4: stmatrix_x2_trans(row, r); break;
    default: stmatrix_x4_trans(row, r); break;
    }
}

KERNEL(32) probe_matrix(const GRID_CONSTANT struct probe_params p)
{
    uint32_t tile = dynamic_smem() + PROBE_DATA;
    probe_copy_in(tile, p.in, 6 * MATRIX_WORDS, 32);
    uint32_t r[MATRIX_REGISTERS];
    ldmatrix_x1(r, row_address(&p, tile, 0));
    ldmatrix_x2(r + 1, row_address(&p, tile, 1));
    ldmatrix_x4(r + 3, row_address(&p, tile, 2));
    ldmatrix_x1_trans(r + 7, row_address(&p, tile, 3));
    ldmatrix_x2_trans(r + 8, row_address(&p, tile, 4));
    ldmatrix_x4_trans(r + 10, row_address(&p, tile, 5));
    UNROLL
    for (int i = 0; i < MATRIX_REGISTERS; i++) {
        st_global_u32(p.out + MATRIX_REGISTERS * thread_idx() + i, r[i]);
    }
    warp_sync();
    UNROLL
    for (uint32_t form = 0; form < 6; form++) {
        store_form(&p, form, r + 10);
    }
    warp_sync();
    probe_copy_out(p.out + 32 * MATRIX_REGISTERS, tile, 6 * MATRIX_WORDS, 32);
}
