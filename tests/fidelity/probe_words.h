// What the words of a probe's parameters mean, for the kernel and for the host side that fills them
// in.
#ifndef FIDELITY_PROBE_WORDS_H
#define FIDELITY_PROBE_WORDS_H

// probe_tma, probe_multicast
enum { TMA_RANK, TMA_BYTES, TMA_ADDS, TMA_MASKS };
// CTAs of probe_multicast; TMA_MASKS has four bits for each.
enum { MULTICAST_CTAS = 4 };

// probe_wgmma: matrix descriptors without the address, which the kernel adds: offsets from the
// data.
enum { WGMMA_A_LOW, WGMMA_A_HIGH, WGMMA_B_LOW, WGMMA_B_HIGH, WGMMA_ACCUMULATES };
// probe_tensor_mma has two words more: the form (1: A in tensor memory, 2: 8-bit types) and the
// instruction descriptor.
enum { TENSOR_FORM = WGMMA_ACCUMULATES + 1, TENSOR_INSTRUCTION };
// Shared memory: A, and B behind it.
enum { WGMMA_A_BYTES = 16 << 10, WGMMA_B_BYTES = 32 << 10 };

// probe_approx
enum { APPROX_EX2, APPROX_LG2, APPROX_RCP };

// Types of matrix operands.
enum { TYPE_F16, TYPE_BF16, TYPE_E4M3, TYPE_E5M2, TYPE_E4M3_E5M2, TYPE_E5M2_E4M3, TYPES };

#endif
