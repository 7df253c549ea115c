// The emulator's interface: runs a kernel of src/device on the CPU and tells what is wrong with it.
//
// A kernel is a C function here (see src/device/common/kernel.h). emu_launch runs a grid of it, one
// fiber per thread, and gives a status and, if it is not EMU_OK, a text: which kernel, CTA, role
// and thread, which instruction, at which address, what it collides with, and what is missing
// between the two. The first error ends the launch, never the process.
//
// One launch at a time: the machine is one global. Use processes for more.
#ifndef EMU_H
#define EMU_H

#include "../src/device/common/kernel.h"

typedef enum emu_status {
    EMU_OK,
    // the launch asks for what the machine has not: limit and figure are in the text
    EMU_BAD_LAUNCH,
    EMU_NO_MEMORY, // of the host
    EMU_FAULT,     // an instruction was misused: address, alignment, operand, count
    EMU_RACE,      // two accesses are not ordered, or memory was read before it was written
    EMU_DEADLOCK   // nobody can go on
} emu_status;

// When asynchronous operations (TMA, bulk copies, wgmma, tcgen05) happen: as late as a wait allows,
// at once, or at random.
typedef enum emu_async { EMU_LATE, EMU_EARLY, EMU_RANDOM } emu_async;

// EMU_CHECK_RACES: everything that the memory model forbids. EMU_CHECK_STRICT: also what is legal
// by the letter but that no library relies on: a proxy fence executed by somebody else than the
// writer, a barrier that could run ahead of a waiter. EMU_CHECK_ORDER: also what every library
// relies on but PTX does not promise: that matrix instructions of one thread on different parts of
// tensor memory happen in the order of their issue.
typedef enum emu_check {
    EMU_CHECK_NONE,
    EMU_CHECK_RACES,
    EMU_CHECK_STRICT,
    EMU_CHECK_ORDER
} emu_check;

// Global memory that the kernel may touch; everything else is out of bounds. An output holds
// nothing yet: to read it before it is written is an error.
typedef enum emu_writable { EMU_READ_ONLY, EMU_READ_WRITE, EMU_OUTPUT } emu_writable;
struct emu_buffer {
    const char *name;
    void *data;
    uint64_t bytes;
    emu_writable writable;
};

struct emu_report;
struct emu_launch {
    const char *name; // of the kernel, for messages
    uint32_t
        arch; // compute capability times 10, 90 (or 0), 100 or 103: which instructions there are
    void (*entry)(const void *params); // calls the kernel with its parameter struct
    const void *params;
    uint32_t grid[3];    // CTAs
    uint32_t threads;    // per CTA, a multiple of 32
    uint32_t cluster;    // CTAs of a cluster along x; 0 is 1
    uint32_t smem_bytes; // dynamic shared memory
    uint32_t resident;   // clusters that run at the same time; 0 is 1
    const struct emu_buffer *buffers;
    uint32_t buffer_count;
    emu_async async;
    emu_check check;
    uint32_t seed; // 0: warps in turn. Otherwise a random order, the same for the same seed
    struct emu_report *report; // filled in if not NULL (emu_report.h)
    uint32_t lag;              // chance in 256 that a lane that could go on is passed over
};

struct emu_result {
    emu_status status;
    char text[1536];
    uint64_t switches;  // between fibers
    uint64_t wgmmas;    // of warpgroups
    uint64_t mmas;      // tcgen05.mma, a pair's once
    uint64_t tma_bytes; // by TMA and bulk copies
};

emu_status emu_launch(const struct emu_launch *launch, struct emu_result *result_out);

// Two launches of which the second is a programmatic dependent of the first: it may start as soon
// as every CTA of the first has said griddep_launch_dependents or ended (late, early or at random,
// as asynchronous operations), and may touch what the first touches only after griddep_wait.
// Buffers, report, async, check, seed and lag are those of `first`.
emu_status emu_launch_pair(const struct emu_launch *first, const struct emu_launch *second,
                           struct emu_result *result_out);

typedef enum emu_element { EMU_U8, EMU_U16, EMU_F16, EMU_BF16, EMU_U32, EMU_F32 } emu_element;
typedef enum emu_swizzle {
    EMU_SWIZZLE_NONE,
    EMU_SWIZZLE_32,
    EMU_SWIZZLE_64,
    EMU_SWIZZLE_128
} emu_swizzle;

// A tensor in global memory and the box that one TMA instruction moves; what cuTensorMapEncodeTiled
// takes.
struct emu_tensor {
    void *data;
    emu_element element;
    uint32_t rank;             // 2 to 5
    uint64_t dims[5];          // elements, innermost first
    uint64_t strides_bytes[4]; // of dimensions 1 .. rank - 1
    uint32_t box[5];           // elements
    emu_swizzle swizzle;
};

// NULL, or what is wrong with it (the rules are the driver's).
const char *emu_tensor_map_encode(tensor_map *map_out, const struct emu_tensor *tensor);

#endif
