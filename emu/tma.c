// TMA: tensor maps, and boxes moved by them.
//
// In shared memory a box is a plain array of its rows (dimension 0), in the order of the
// dimensions; the swizzle permutes the 16-byte pieces by their address. Elements outside the tensor
// read as zero and are not written.
#include "../src/device/ptx/tma.h"
#include "../src/device/ptx/tma_pair.h"
#include "global.h"

// What a tensor_map holds here. On a GPU its content is secret.
struct map {
    uint8_t *data;
    uint64_t strides_bytes[4];
    uint64_t dims[5];
    uint16_t box[5];
    uint8_t rank;
    uint8_t element;
    uint8_t swizzle;
    uint8_t magic;
};

enum { MAP_MAGIC = 0xa7 };

_Static_assert(sizeof(struct map) <= sizeof(tensor_map),
               "the emulator's map fits into the driver's 128 bytes");

static struct map map_of(const tensor_map *map)
{
    struct map m;
    memcpy(&m, map, sizeof m);
    if (m.magic != MAP_MAGIC) {
        emu_fail(EMU_FAULT, "the tensor map was never encoded");
    }
    return m;
}

// The rules of cuTensorMapEncodeTiled, CUDA driver API; and that a row fills the swizzle, as it is
// not documented where the pieces of a shorter one go.
const char *emu_tensor_map_encode(tensor_map *map_out, const struct emu_tensor *t)
{
    uint32_t size = element_bytes(t->element);
    static const uint32_t swizzle_bytes[] = {0, 32, 64, 128};
    if (t->rank < 2 || t->rank > 5) {
        return "rank: 2 to 5 dimensions";
    }
    if (!t->data || (uintptr_t)t->data % 16) {
        return "data: must be 16-byte aligned";
    }
    if (t->box[0] * (uint64_t)size % 16) {
        return "box[0]: must be a multiple of 16 bytes";
    }
    if (t->swizzle != EMU_SWIZZLE_NONE && t->box[0] * (uint64_t)size != swizzle_bytes[t->swizzle]) {
        return "box[0]: not the swizzle's width";
    }
    struct map m = {.data = t->data,
                    .rank = (uint8_t)t->rank,
                    .element = (uint8_t)t->element,
                    .swizzle = (uint8_t)t->swizzle,
                    .magic = MAP_MAGIC};
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->dims[i] == 0 || t->dims[i] > (uint64_t)1 << 32) {
            return "dims: 1 to 2^32";
        }
        if (t->box[i] == 0 || t->box[i] > 256) {
            return "box: 1 to 256";
        }
        if (i > 0 &&
            (t->strides_bytes[i - 1] % 16 || t->strides_bytes[i - 1] >= (uint64_t)1 << 40)) {
            return "strides_bytes: multiples of 16 below 2^40";
        }
        m.dims[i] = t->dims[i];
        m.box[i] = (uint16_t)t->box[i];
        m.strides_bytes[i > 0 ? i - 1 : 0] = i > 0 ? t->strides_bytes[i - 1] : 0;
    }
    memset(map_out, 0, sizeof *map_out);
    memcpy(map_out, &m, sizeof m);
    return NULL;
}

uint32_t swizzle_address(uint32_t addr, emu_swizzle swizzle)
{
    static const uint32_t mask[] = {0, 1, 3, 7};
    return addr ^ ((addr >> 7 & mask[swizzle]) << 4);
}

static uint32_t box_bytes(const struct map *m)
{
    uint32_t bytes = element_bytes((emu_element)m->element);
    for (uint32_t i = 0; i < m->rank; i++) {
        bytes *= m->box[i];
    }
    return bytes;
}

// One 16-byte piece; `first` is the coordinate of its first element along dimension 0.
static void move_piece(const struct transfer *t, const struct map *m, uint8_t *row, int64_t first,
                       uint8_t *shared)
{
    int64_t size = (int64_t)element_bytes((emu_element)m->element);
    for (int64_t at = 0; at < CHUNK_BYTES; at += size) {
        int64_t i = first + at / size;
        bool inside = row && i >= 0 && i < (int64_t)m->dims[0];
        if (t->kind == TRANSFER_LOAD) {
            if (inside) {
                memcpy(shared + at, row + i * size, (size_t)size);
            } else {
                memset(shared + at, 0, (size_t)size);
            }
        } else if (inside && t->kind == TRANSFER_STORE) {
            memcpy(row + i * size, shared + at, (size_t)size);
        } else if (inside) {
            global_reduce_add(row + i * size, shared + at, (uint32_t)size, (emu_element)m->element);
        }
    }
}

static void move_row(const struct transfer *t, const struct map *m, uint8_t *row,
                     uint32_t smem_addr)
{
    int64_t size = (int64_t)element_bytes((emu_element)m->element);
    for (uint32_t at = 0; at < m->box[0] * (uint32_t)size; at += CHUNK_BYTES) {
        int64_t first = t->coordinates[0] + at / size;
        uint8_t *shared = t->cta->smem + swizzle_address(smem_addr + at, (emu_swizzle)m->swizzle);
        bool whole = row && first >= 0 && first + CHUNK_BYTES / size <= (int64_t)m->dims[0];
        if (whole && t->kind == TRANSFER_LOAD) {
            memcpy(shared, row + first * size, CHUNK_BYTES);
        } else if (whole && t->kind == TRANSFER_STORE) {
            memcpy(row + first * size, shared, CHUNK_BYTES);
        } else {
            move_piece(t, m, row, first, shared);
        }
    }
}

// Row r of the box, counting through its dimensions; NULL outside the tensor.
static uint8_t *box_row(const struct transfer *t, const struct map *m, uint32_t r)
{
    uint8_t *row = m->data;
    for (uint32_t i = 1; i < m->rank; i++) {
        int64_t c = t->coordinates[i] + (int64_t)(r % m->box[i]);
        r /= m->box[i];
        if (c < 0 || c >= (int64_t)m->dims[i]) {
            return NULL;
        }
        row += c * (int64_t)m->strides_bytes[i - 1];
    }
    return row;
}

static uint32_t box_row_bytes(const struct map *m)
{
    return m->box[0] * element_bytes((emu_element)m->element);
}

void tma_move_box(const struct transfer *t)
{
    struct map m = map_of(&t->map);
    uint32_t rows = box_bytes(&m) / box_row_bytes(&m);
    for (uint32_t r = 0; r < rows; r++) {
        move_row(t, &m, box_row(t, &m, r),
                 (t->smem_addr & SMEM_OFFSET_MASK) + r * box_row_bytes(&m));
    }
}

// The elements of a row of the box that lie in the tensor: coordinates `first` to before `end`.
struct row_part {
    int64_t first;
    int64_t end;
};

static struct row_part part_in_tensor(const struct transfer *t, const struct map *m)
{
    int64_t first = t->coordinates[0];
    int64_t end = first + (int64_t)m->box[0];
    return (struct row_part){first > 0 ? first : 0,
                             end < (int64_t)m->dims[0] ? end : (int64_t)m->dims[0]};
}

void tma_check_global(const struct transfer *t, const struct global_access *access)
{
    struct map m = map_of(&t->map);
    const struct emu_buffer *buffer = global_buffer(m.data);
    if (!buffer || buffer->writable == EMU_READ_ONLY) {
        return;
    }
    int64_t size = (int64_t)element_bytes((emu_element)m.element);
    struct row_part part = part_in_tensor(t, &m);
    uint32_t rows = box_bytes(&m) / box_row_bytes(&m);
    for (uint32_t r = 0; part.first < part.end && r < rows; r++) {
        const uint8_t *row = box_row(t, &m, r);
        if (row) {
            check_global_access(row + part.first * size, (uint64_t)((part.end - part.first) * size),
                                *access);
        }
    }
}

// A row of the box in shared memory, in the pieces that the swizzle moves: bytes `at` to before
// `end` of it.
static void check_row_source(const struct transfer *t, const struct map *m, uint32_t row,
                             uint32_t at, uint32_t end, struct access access)
{
    while (at < end) {
        uint32_t next = (at / CHUNK_BYTES + 1) * CHUNK_BYTES;
        next = next < end ? next : end;
        check_read(t->cta, swizzle_address(row + at, (emu_swizzle)m->swizzle), next - at, access);
        at = next;
    }
}

void tma_check_source(const struct transfer *t, struct access access)
{
    struct map m = map_of(&t->map);
    int64_t size = (int64_t)element_bytes((emu_element)m.element);
    struct row_part part = part_in_tensor(t, &m);
    uint32_t rows = box_bytes(&m) / box_row_bytes(&m);
    check_bounds(t->smem_addr, t->bytes, access.kind);
    for (uint32_t r = 0; part.first < part.end && r < rows; r++) {
        if (box_row(t, &m, r)) {
            check_row_source(t, &m, t->smem_addr + r * box_row_bytes(&m),
                             (uint32_t)((part.first - t->coordinates[0]) * size),
                             (uint32_t)((part.end - t->coordinates[0]) * size), access);
        }
    }
}

// Everything that the map can reach must be registered; the box itself is clipped to it. A box that
// begins within 16 bytes is an illegal instruction on Hopper, and so is one that is stored and
// begins in front of the tensor.
static void check_map(const struct map *m, uint32_t rank, const int32_t *c, bool write,
                      const char *instruction)
{
    if (m->rank != rank) {
        emu_fail(EMU_FAULT, "%s: the tensor map has %u dimensions, the instruction %u", instruction,
                 m->rank, rank);
    }
    uint32_t size = element_bytes((emu_element)m->element);
    if (c[0] * (int64_t)size % CHUNK_BYTES) {
        emu_fail(EMU_FAULT, "%s at coordinate %d of elements of %u bytes: not 16-byte aligned",
                 instruction, c[0], size);
    }
    for (uint32_t i = 0; write && i < rank; i++) {
        if (c[i] < 0) {
            emu_fail(EMU_FAULT, "%s at coordinate %d of dimension %u: in front of the tensor",
                     instruction, c[i], i);
        }
    }
    uint64_t bytes = m->dims[0] * size;
    for (uint32_t i = 1; i < m->rank; i++) {
        bytes += (m->dims[i] - 1) * m->strides_bytes[i - 1];
    }
    check_global(m->data, bytes, write, instruction);
}

static void load_into(struct cta *cta, uint32_t dst, const tensor_map *map, uint32_t bytes,
                      uint32_t bar, const int32_t *c)
{
    struct mbarrier *barrier = mbarrier_find(bar, "TMA load", true);
    barrier->load_phase_plus_1 = barrier->phase + 1;
    struct transfer transfer = {.kind = TRANSFER_LOAD,
                                .cta = cta,
                                .smem_addr = dst,
                                .barrier = barrier,
                                .agent = agent_mbarrier(barrier),
                                .epoch = ++barrier->transfers,
                                .bytes = bytes,
                                .is_box = true,
                                .map = *map};
    memcpy(transfer.coordinates, c, sizeof transfer.coordinates);
    check_write(cta, dst, bytes,
                (struct access){ACCESS_TMA_LOAD, transfer.agent, transfer.epoch, true});
    tma_check_global(&transfer,
                     &(struct global_access){ACCESS_TMA_LOAD, transfer.agent, transfer.epoch,
                                             GLOBAL_READ, SCOPE_CTA, true});
    transfer_start(&transfer);
}

static void check_smem(uint32_t addr, const char *instruction)
{
    if (addr % 128) {
        emu_fail(EMU_FAULT, "%s at shared address 0x%x: not 128-byte aligned", instruction, addr);
    }
}

static void load(uint32_t rank, uint32_t dst, const tensor_map *map, uint32_t bar, const int32_t *c)
{
    struct map m = map_of(map);
    check_map(&m, rank, c, false, "TMA load");
    check_smem(dst, "TMA load");
    struct cta *cta = cta_of_address(dst, "TMA load");
    if (cta != current_cta() || cta_of_address(bar, "TMA load") != cta) {
        emu_fail(EMU_FAULT,
                 "TMA load to 0x%x, mbarrier 0x%x: without multicast both must be in the own CTA",
                 dst, bar);
    }
    load_into(cta, dst, map, box_bytes(&m), bar, c);
}

// The mbarrier may be that of the other CTA of the pair.
static void load_pair(uint32_t rank, uint32_t dst, const tensor_map *map, uint32_t bar,
                      const int32_t *c)
{
    struct map m = map_of(map);
    check_map(&m, rank, c, false, "TMA pair load");
    check_smem(dst, "TMA pair load");
    struct cta *cta = cta_of_address(dst, "TMA pair load");
    if (machine.launch.arch < 100) {
        emu_fail(EMU_FAULT, "TMA pair load: the launch is for sm_%u, which has no CTA pairs",
                 machine.launch.arch ? machine.launch.arch : 90);
    }
    if (cta != current_cta() || cta_of_address(bar, "TMA pair load")->rank / 2 != cta->rank / 2) {
        emu_fail(EMU_FAULT,
                 "TMA pair load to 0x%x, mbarrier 0x%x: the first must be in the own CTA, the "
                 "second in its pair",
                 dst, bar);
    }
    load_into(cta, dst, map, box_bytes(&m), bar, c);
}

static void load_multicast(uint32_t rank, uint32_t dst, const tensor_map *map, uint32_t bar,
                           uint32_t cta_mask, const int32_t *c)
{
    struct map m = map_of(map);
    check_map(&m, rank, c, false, "TMA multicast load");
    check_smem(dst, "TMA multicast load");
    if (cta_mask == 0 || cta_mask >> machine.cluster_size) {
        emu_fail(EMU_FAULT, "TMA multicast load to CTAs 0x%x: the cluster has %u", cta_mask,
                 machine.cluster_size);
    }
    for (uint32_t r = 0; r < machine.cluster_size; r++) {
        if (cta_mask >> r & 1) {
            uint32_t base = r << SMEM_RANK_SHIFT;
            load_into(&current_cta()->cluster->ctas[r], (dst & SMEM_OFFSET_MASK) | base, map,
                      box_bytes(&m), (bar & SMEM_OFFSET_MASK) | base, c);
        }
    }
}

static void store(transfer_kind kind, uint32_t rank, const tensor_map *map, uint32_t src,
                  const int32_t *c)
{
    const char *instruction = kind == TRANSFER_STORE ? "TMA store" : "TMA reduction";
    struct map m = map_of(map);
    check_map(&m, rank, c, true, instruction);
    check_smem(src, instruction);
    if (cta_of_address(src, instruction) != current_cta()) {
        emu_fail(EMU_FAULT, "%s from 0x%x: the source must be in the own CTA", instruction, src);
    }
    if (kind == TRANSFER_REDUCE && (m.element == EMU_U8 || m.element == EMU_U16)) {
        emu_fail(EMU_FAULT, "TMA reduction: add is for 32-bit, f16 and bf16 elements");
    }
    struct transfer transfer = {.kind = kind,
                                .smem_addr = src,
                                .bytes = box_bytes(&m),
                                .is_box = true,
                                .map = *map,
                                .element = (emu_element)m.element};
    memcpy(transfer.coordinates, c, sizeof transfer.coordinates);
    bulk_store_start(&transfer);
}

void tma_prefetch_map(const tensor_map *map)
{
    map_of(map);
}

void tma_load_2d(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1)
{
    load(2, dst, map, bar, (const int32_t[5]){c0, c1});
}

void tma_load_3d(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1,
                 int32_t c2)
{
    load(3, dst, map, bar, (const int32_t[5]){c0, c1, c2});
}

void tma_load_4d(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1,
                 int32_t c2, int32_t c3)
{
    load(4, dst, map, bar, (const int32_t[5]){c0, c1, c2, c3});
}

void tma_load_4d_hint(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1,
                      int32_t c2, int32_t c3, uint64_t policy)
{
    (void)policy;
    tma_load_4d(dst, map, bar, c0, c1, c2, c3);
}

void tma_load_5d(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1,
                 int32_t c2, int32_t c3, int32_t c4)
{
    load(5, dst, map, bar, (const int32_t[5]){c0, c1, c2, c3, c4});
}

void tma_load_pair_2d(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1)
{
    load_pair(2, dst, map, bar, (const int32_t[5]){c0, c1});
}

void tma_load_pair_3d(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1,
                      int32_t c2)
{
    load_pair(3, dst, map, bar, (const int32_t[5]){c0, c1, c2});
}

void tma_load_pair_4d(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1,
                      int32_t c2, int32_t c3)
{
    load_pair(4, dst, map, bar, (const int32_t[5]){c0, c1, c2, c3});
}

void tma_load_pair_5d(uint32_t dst, const tensor_map *map, uint32_t bar, int32_t c0, int32_t c1,
                      int32_t c2, int32_t c3, int32_t c4)
{
    load_pair(5, dst, map, bar, (const int32_t[5]){c0, c1, c2, c3, c4});
}

void tma_load_multicast_2d(uint32_t dst, const tensor_map *map, uint32_t bar, uint32_t cta_mask,
                           int32_t c0, int32_t c1)
{
    load_multicast(2, dst, map, bar, cta_mask, (const int32_t[5]){c0, c1});
}

void tma_load_multicast_3d(uint32_t dst, const tensor_map *map, uint32_t bar, uint32_t cta_mask,
                           int32_t c0, int32_t c1, int32_t c2)
{
    load_multicast(3, dst, map, bar, cta_mask, (const int32_t[5]){c0, c1, c2});
}

void tma_load_multicast_4d(uint32_t dst, const tensor_map *map, uint32_t bar, uint32_t cta_mask,
                           int32_t c0, int32_t c1, int32_t c2, int32_t c3)
{
    load_multicast(4, dst, map, bar, cta_mask, (const int32_t[5]){c0, c1, c2, c3});
}

void tma_load_multicast_5d(uint32_t dst, const tensor_map *map, uint32_t bar, uint32_t cta_mask,
                           int32_t c0, int32_t c1, int32_t c2, int32_t c3, int32_t c4)
{
    load_multicast(5, dst, map, bar, cta_mask, (const int32_t[5]){c0, c1, c2, c3, c4});
}

void tma_store_2d(const tensor_map *map, uint32_t src, int32_t c0, int32_t c1)
{
    store(TRANSFER_STORE, 2, map, src, (const int32_t[5]){c0, c1});
}

void tma_store_3d(const tensor_map *map, uint32_t src, int32_t c0, int32_t c1, int32_t c2)
{
    store(TRANSFER_STORE, 3, map, src, (const int32_t[5]){c0, c1, c2});
}

void tma_store_4d(const tensor_map *map, uint32_t src, int32_t c0, int32_t c1, int32_t c2,
                  int32_t c3)
{
    store(TRANSFER_STORE, 4, map, src, (const int32_t[5]){c0, c1, c2, c3});
}

void tma_store_5d(const tensor_map *map, uint32_t src, int32_t c0, int32_t c1, int32_t c2,
                  int32_t c3, int32_t c4)
{
    store(TRANSFER_STORE, 5, map, src, (const int32_t[5]){c0, c1, c2, c3, c4});
}

void tma_reduce_add_2d(const tensor_map *map, uint32_t src, int32_t c0, int32_t c1)
{
    store(TRANSFER_REDUCE, 2, map, src, (const int32_t[5]){c0, c1});
}

void tma_reduce_add_3d(const tensor_map *map, uint32_t src, int32_t c0, int32_t c1, int32_t c2)
{
    store(TRANSFER_REDUCE, 3, map, src, (const int32_t[5]){c0, c1, c2});
}

void tma_reduce_add_4d(const tensor_map *map, uint32_t src, int32_t c0, int32_t c1, int32_t c2,
                       int32_t c3)
{
    store(TRANSFER_REDUCE, 4, map, src, (const int32_t[5]){c0, c1, c2, c3});
}

void tma_reduce_add_5d(const tensor_map *map, uint32_t src, int32_t c0, int32_t c1, int32_t c2,
                       int32_t c3, int32_t c4)
{
    store(TRANSFER_REDUCE, 5, map, src, (const int32_t[5]){c0, c1, c2, c3, c4});
}
