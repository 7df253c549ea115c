// Tensor memory of a CTA: its words, who may use which columns, who touched which word.
//
// Tensor agents, the indices of the clocks tensor_done, tensor_fenced and tensor_ordered: for each
// CTA the loads of each thread, the stores of each thread, and the tcgen05 operations (mma, cp) of
// each thread that issues such. The epoch of a load or a store is the number of waits that complete
// it; that of an operation is its number.
#ifndef EMU_TMEM_H
#define EMU_TMEM_H

#include "matrix_operand.h"

enum {
    TMEM_LANES = 128,
    TMEM_COLUMNS = 512,
    TMEM_UNIT = 32,                        // columns
    TMEM_UNITS = TMEM_COLUMNS / TMEM_UNIT, // that can be allocated
    TMEM_MAX_REGISTERS = 128,              // of one ld or st
    TMEM_MAX_TRANSFERS = 16,               // lds of a thread, and sts, in flight
    TENSOR_POISON = 0x7fadbeef             // a signalling NaN, which no arithmetic leaves as it is
};

struct tensor_cell {
    uint32_t write_epoch; // 0: never written
    uint32_t readers;     // a list in the pool; 0: none
    uint16_t write_agent;
    uint8_t write_kind;
};

struct tensor_reader {
    uint32_t epoch;
    uint32_t next;
    uint16_t agent;
    uint8_t kind;
};

typedef enum tensor_shape {
    SHAPE_32X32B,
    SHAPE_16X64B,
    SHAPE_16X128B,
    SHAPE_16X256B,
    SHAPE_16X32BX2
} tensor_shape;

struct tensor_instruction {
    tensor_shape shape;
    uint32_t num;
    uint32_t addr;
    uint32_t offset; // of the second half of 16x32bx2
};

// A ld or a st of one thread that nobody has waited for.
struct tensor_transfer {
    struct tensor_instruction instruction;
    bool moved;          // data holds what was in tensor memory
    uint32_t *registers; // of a ld
    float *reduced;      // of a ld.red: where its extreme goes, and which
    bool reduce_max;
    uint32_t data[TMEM_MAX_REGISTERS];
};

struct tensor_thread {
    uint32_t loads_waited; // wait::ld so far
    uint32_t stores_waited;
    uint32_t load_count;
    uint32_t store_count;
    struct tensor_transfer loads[TMEM_MAX_TRANSFERS];
    struct tensor_transfer stores[TMEM_MAX_TRANSFERS];
};

struct tmem {
    uint32_t words[TMEM_LANES][TMEM_COLUMNS];
    struct tensor_cell cells[TMEM_LANES][TMEM_COLUMNS];
    uint32_t owner[TMEM_UNITS]; // number of the allocation, 0: free
    uint32_t allocations;
    uint32_t last_columns; // of the last allocation
    bool relinquished;
    struct {
        uint32_t columns; // 0: nobody asks
        bool granted;
        uint32_t first;
    } request;
    uint32_t pair_deallocs;
    struct tensor_reader *readers;
    uint32_t reader_count;
    uint32_t reader_capacity;
    uint32_t free_readers;
    struct tensor_thread *threads;
    struct mma_thread *mma_threads; // MAX_MMA_THREADS
};

static inline uint32_t tensor_agent(const struct cta *cta, uint32_t local)
{
    return cta->rank * machine.tensor_agents_per_cta + local;
}

static inline uint32_t tensor_agent_load(const struct fiber *fiber)
{
    return tensor_agent(fiber->cta, fiber->thread);
}

static inline uint32_t tensor_agent_store(const struct fiber *fiber)
{
    return tensor_agent(fiber->cta, machine.launch.threads + fiber->thread);
}

static inline uint32_t tensor_agent_mma(const struct cta *cta, uint32_t slot)
{
    return tensor_agent(cta, 2 * machine.launch.threads + slot);
}

// ---- tmem.c
// What every tcgen05 instruction checks first: the machine has it; group 1 or 2 agrees with all
// others of the kernel (0: the instruction has none). Gives the CTA's tensor memory, NULL before
// any allocation.
struct tmem *tmem_begin(const char *instruction, uint32_t group);
struct cta *tmem_peer(const struct cta *cta); // the other CTA of the pair

// ---- tmem_shadow.c
struct tensor_access {
    access_kind kind;
    uint32_t agent;
    uint32_t epoch;
};
// The current thread touches columns of a lane, or starts an operation that does: allocation,
// order, initialisation.
void tensor_check_read(struct cta *cta, uint32_t lane, uint32_t column, uint32_t columns,
                       struct tensor_access access);
void tensor_check_write(struct cta *cta, uint32_t lane, uint32_t column, uint32_t columns,
                        struct tensor_access access);
// Read and written by one operation, as the accumulator of an mma is.
void tensor_check_update(struct cta *cta, uint32_t lane, uint32_t column, uint32_t columns,
                         struct tensor_access access);
void tensor_check_free(struct cta *cta, uint32_t first, uint32_t columns);
void tensor_shadow_clear(struct tmem *tmem, uint32_t first, uint32_t columns);

// ---- tmem_access.c
// Registers of one lane, and where register i of lane t is, relative to the address.
uint32_t tensor_registers(tensor_shape shape, uint32_t num);
uint32_t tensor_lane(tensor_shape shape, uint32_t t, uint32_t i);
uint32_t tensor_column(const struct tensor_instruction *instruction, uint32_t t, uint32_t i);

// ---- tcgen05.c
struct mma_thread *mma_threads_create(void);
void mma_threads_destroy(struct mma_thread *threads);
void mma_threads_reset(struct mma_thread *threads);
// Whether PTX orders operation `later` of the thread after its operation `earlier`.
bool mma_in_order(const struct cta *cta, uint32_t slot, uint32_t earlier, uint32_t later);

#endif
