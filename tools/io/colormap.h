// colormap.h: numbers to colours for attention maps.
#ifndef ATTN_TOOLS_IO_COLORMAP_H
#define ATTN_TOOLS_IO_COLORMAP_H

#include <stdint.h>

// viridis: dark violet (0) over green to yellow (1), of even perceived steps and readable by the
// colour-blind and in grey print. t is clamped to 0..1; NaN gives mid grey.
void io_colormap_viridis(double t, uint8_t rgb[3]);

#endif
