// One operation of the tensor core: layouts, rules of its descriptors, accesses, arithmetic. For
// tcgen05.c and for the tests of the layouts.
#ifndef EMU_TCGEN05_MMA_H
#define EMU_TCGEN05_MMA_H

#include "tmem.h"

typedef enum mma_kind { MMA_F16, MMA_F8F6F4, MMA_CP, MMA_SHIFT } mma_kind;

static inline bool mma_multiplies(mma_kind kind)
{
    return kind < MMA_CP;
}

typedef enum cp_shape {
    CP_128X256B,
    CP_4X256B,
    CP_128X128B,
    CP_64X128B_02_13,
    CP_64X128B_01_23,
    CP_32X128B
} cp_shape;

struct mma_operation {
    mma_kind kind;
    uint32_t group;   // CTAs: 1 or 2
    struct cta *cta;  // that issued it, the even one of a pair
    uint32_t d;       // address in tensor memory
    bool a_in_tensor; // at address a; else desc_a
    uint32_t a;
    uint64_t desc_a; // the source of a cp
    uint64_t desc_b;
    uint32_t idesc;
    bool accumulate;
    cp_shape shape;
};

// Of a descriptor: its bits from `first` on.
static inline uint32_t bits(uint64_t word, uint32_t first, uint32_t count)
{
    return (uint32_t)(word >> first) & ((1u << count) - 1);
}

// What an instruction descriptor says.
struct mma_shape {
    operand_type type_a;
    operand_type type_b;
    uint32_t m;
    uint32_t n;
    bool m_major;
    bool n_major;
    bool d_is_f16; // a value a word, in its lower half
};

struct mma_shape mma_shape_of(const struct mma_operation *operation);
struct operand_layout tcgen05_layout(uint64_t descriptor);

// Where a word of D is: in which CTA of the group, at which lane, how many columns behind its
// address.
struct tensor_place {
    uint32_t cta;
    uint32_t lane;
    uint32_t column;
};
struct tensor_place mma_d_place(uint32_t group, uint32_t m, uint32_t n, uint32_t row,
                                uint32_t column);

// ---- tcgen05_mma.c: the operations that multiply
// The rules of a matrix descriptor; `name` says whose.
void tcgen05_check_descriptor(uint64_t descriptor, const char *name);
void mma_check(const struct mma_operation *operation); // all rules that need no order
// All accesses, by the agents of the issuing thread; without those of D if it continues the sum of
// the operation before (tcgen05.c).
void mma_check_accesses(const struct mma_operation *operation, uint32_t slot, uint32_t epoch,
                        bool continues);
void mma_run(const struct mma_operation *operation);

// ---- tcgen05_move.c: cp and shift
// Lanes to which a cp copies row r: gives how many.
uint32_t cp_lanes(cp_shape shape, uint32_t r, uint32_t *lanes_out);
uint32_t cp_rows(cp_shape shape);
uint32_t cp_columns(cp_shape shape);
void move_check(const struct mma_operation *operation);
void move_check_accesses(const struct mma_operation *operation, uint32_t slot, uint32_t epoch);
void move_run(const struct mma_operation *operation);

#endif
