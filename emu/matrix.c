// ldmatrix, stmatrix, and loads, stores and atomics of shared memory by a thread.
#define KERNEL_WITHOUT_SITES
#include "../src/device/ptx/matrix.h"
#include "../src/device/ptx/memory_ops.h"
#include "count.h"

static uint8_t *smem_at(struct cta *cta, uint32_t addr)
{
    return cta->smem + (addr & SMEM_OFFSET_MASK);
}

static struct cta *own_cta(uint32_t addr, const char *instruction)
{
    struct cta *cta = cta_of_address(addr, instruction);
    if (cta != current_cta()) {
        emu_fail(EMU_FAULT,
                 "%s at 0x%x: the shared memory of another CTA needs the form for clusters",
                 instruction, addr);
    }
    return cta;
}

static void check_alignment(uint32_t addr, uint32_t bytes, const char *instruction)
{
    if (addr % bytes) {
        emu_fail(EMU_FAULT, "%s at shared address 0x%x: not %u-byte aligned", instruction, addr,
                 bytes);
    }
}

static void load(struct cta *cta, void *r, uint32_t addr, uint32_t bytes)
{
    check_alignment(addr, bytes, "ld.shared");
    check_read(cta, addr, bytes, thread_access(ACCESS_LD));
    memcpy(r, smem_at(cta, addr), bytes);
    count_lane("ld.shared", addr, bytes, false);
    leave_site();
}

static void store(struct cta *cta, uint32_t addr, const void *r, uint32_t bytes)
{
    check_alignment(addr, bytes, "st.shared");
    check_write(cta, addr, bytes, thread_access(ACCESS_ST));
    memcpy(smem_at(cta, addr), r, bytes);
    count_lane("st.shared", addr, bytes, true);
    leave_site();
}

uint32_t ld_shared_u16(uint32_t addr)
{
    uint16_t r;
    load(own_cta(addr, "ld.shared"), &r, addr, sizeof r);
    return r;
}

uint32_t ld_shared_u32(uint32_t addr)
{
    uint32_t r;
    load(own_cta(addr, "ld.shared"), &r, addr, sizeof r);
    return r;
}

float ld_shared_f32(uint32_t addr)
{
    float r;
    load(own_cta(addr, "ld.shared"), &r, addr, sizeof r);
    return r;
}

void ld_shared_v2_u32(uint32_t *r, uint32_t addr)
{
    load(own_cta(addr, "ld.shared"), r, addr, 8);
}

void ld_shared_v4_u32(uint32_t *r, uint32_t addr)
{
    load(own_cta(addr, "ld.shared"), r, addr, 16);
}

uint32_t ld_cluster_u32(uint32_t addr)
{
    uint32_t r;
    load(cta_of_address(addr, "ld.shared::cluster"), &r, addr, sizeof r);
    return r;
}

void st_shared_u16(uint32_t addr, uint32_t value)
{
    uint16_t half = (uint16_t)value;
    store(own_cta(addr, "st.shared"), addr, &half, sizeof half);
}

void st_shared_u32(uint32_t addr, uint32_t value)
{
    store(own_cta(addr, "st.shared"), addr, &value, sizeof value);
}

void st_shared_f32(uint32_t addr, float value)
{
    store(own_cta(addr, "st.shared"), addr, &value, sizeof value);
}

void st_shared_v2_u32(uint32_t addr, const uint32_t *r)
{
    store(own_cta(addr, "st.shared"), addr, r, 8);
}

void st_shared_v4_u32(uint32_t addr, const uint32_t *r)
{
    store(own_cta(addr, "st.shared"), addr, r, 16);
}

void st_cluster_u32(uint32_t addr, uint32_t value)
{
    store(cta_of_address(addr, "st.shared::cluster"), addr, &value, sizeof value);
}

// Two relaxed atomics never race with each other, but they order nothing either: modelled as
// neither read nor write beyond bounds and initialisation, which is what a counter in shared memory
// needs.
uint32_t atom_shared_add_u32(uint32_t addr, uint32_t value)
{
    struct cta *cta = own_cta(addr, "atom.shared");
    check_alignment(addr, sizeof value, "atom.shared");
    check_read(cta, addr, sizeof value, thread_access(ACCESS_ATOM));
    uint32_t old;
    memcpy(&old, smem_at(cta, addr), sizeof old);
    uint32_t sum = old + value;
    memcpy(smem_at(cta, addr), &sum, sizeof sum);
    return old;
}

// The row that lane `source` named for tile i.
static uint32_t row_address(const uint64_t *addresses, uint32_t tile, uint32_t row)
{
    return (uint32_t)addresses[8 * tile + row];
}

static const uint64_t *exchange_rows(const char *instruction, uint32_t tiles, uint32_t addr)
{
    if (current_fiber()->lane < 8 * tiles) {
        check_alignment(addr, 16, instruction);
        own_cta(addr, instruction);
    }
    return warp_exchange(instruction, tiles, addr);
}

static void load_tiles(const char *instruction, uint32_t *r, uint32_t addr, uint32_t tiles,
                       bool trans)
{
    const uint64_t *rows = exchange_rows(instruction, tiles, addr);
    struct cta *cta = current_cta();
    uint32_t lane = current_fiber()->lane;
    for (uint32_t i = 0; i < tiles; i++) {
        uint16_t pair[2];
        for (uint32_t h = 0; h < 2; h++) {
            uint32_t row = trans ? lane % 4 * 2 + h : lane / 4;
            uint32_t column = trans ? lane / 4 : lane % 4 * 2 + h;
            uint32_t at = row_address(rows, i, row) + column * 2;
            check_read(cta, at, 2, thread_access(ACCESS_LDMATRIX));
            memcpy(&pair[h], smem_at(cta, at), 2);
        }
        r[i] = (uint32_t)pair[0] | (uint32_t)pair[1] << 16;
    }
    count_tiles(instruction, rows, tiles, false);
    leave_site();
}

static void store_tiles(const char *instruction, uint32_t addr, const uint32_t *r, uint32_t tiles,
                        bool trans)
{
    const uint64_t *rows = exchange_rows(instruction, tiles, addr);
    struct cta *cta = current_cta();
    uint32_t lane = current_fiber()->lane;
    for (uint32_t i = 0; i < tiles; i++) {
        for (uint32_t h = 0; h < 2; h++) {
            uint16_t value = (uint16_t)(r[i] >> (16 * h));
            uint32_t row = trans ? lane % 4 * 2 + h : lane / 4;
            uint32_t column = trans ? lane / 4 : lane % 4 * 2 + h;
            uint32_t at = row_address(rows, i, row) + column * 2;
            check_write(cta, at, 2, thread_access(ACCESS_STMATRIX));
            memcpy(smem_at(cta, at), &value, 2);
        }
    }
    count_tiles(instruction, rows, tiles, true);
    leave_site();
}

void ldmatrix_x1(uint32_t *r, uint32_t addr)
{
    load_tiles("ldmatrix.x1", r, addr, 1, false);
}

void ldmatrix_x2(uint32_t *r, uint32_t addr)
{
    load_tiles("ldmatrix.x2", r, addr, 2, false);
}

void ldmatrix_x4(uint32_t *r, uint32_t addr)
{
    load_tiles("ldmatrix.x4", r, addr, 4, false);
}

void ldmatrix_x1_trans(uint32_t *r, uint32_t addr)
{
    load_tiles("ldmatrix.x1.trans", r, addr, 1, true);
}

void ldmatrix_x2_trans(uint32_t *r, uint32_t addr)
{
    load_tiles("ldmatrix.x2.trans", r, addr, 2, true);
}

void ldmatrix_x4_trans(uint32_t *r, uint32_t addr)
{
    load_tiles("ldmatrix.x4.trans", r, addr, 4, true);
}

void stmatrix_x1(uint32_t addr, const uint32_t *r)
{
    store_tiles("stmatrix.x1", addr, r, 1, false);
}

void stmatrix_x2(uint32_t addr, const uint32_t *r)
{
    store_tiles("stmatrix.x2", addr, r, 2, false);
}

void stmatrix_x4(uint32_t addr, const uint32_t *r)
{
    store_tiles("stmatrix.x4", addr, r, 4, false);
}

void stmatrix_x1_trans(uint32_t addr, const uint32_t *r)
{
    store_tiles("stmatrix.x1.trans", addr, r, 1, true);
}

void stmatrix_x2_trans(uint32_t addr, const uint32_t *r)
{
    store_tiles("stmatrix.x2.trans", addr, r, 2, true);
}

void stmatrix_x4_trans(uint32_t addr, const uint32_t *r)
{
    store_tiles("stmatrix.x4.trans", addr, r, 4, true);
}
