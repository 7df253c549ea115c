// colormap.c: viridis as one polynomial per channel.
#include "colormap.h"

#include <math.h>

// Our own minimax fit (iteratively reweighted least squares, degree 7) to the 256 colours of
// viridis by Nathaniel Smith and Stefan van der Walt (bids.github.io/colormap, public domain).
// Largest difference from the table: red 1.6, green 0.4, blue 1.3 of 255.
enum { TERMS = 8 };
static const double viridis[3][TERMS] = {
    {0.2609, 1.0613, -14.1025, 73.8373, -210.8190, 316.1832, -228.3765, 62.9424},
    {0.0036, 1.5004, -0.8928, -1.0553, 4.5738, -3.9328, -0.0990, 0.8071},
    {0.3242, 2.0611, -10.1898, 41.6113, -117.5103, 191.9932, -162.8338, 54.6844},
};

void io_colormap_viridis(double t, uint8_t rgb[3])
{
    if (isnan(t)) {
        rgb[0] = rgb[1] = rgb[2] = 128;
        return;
    }
    t = fmin(fmax(t, 0.0), 1.0);
    for (int channel = 0; channel < 3; channel++) {
        double value = 0.0;
        for (int i = TERMS - 1; i >= 0; i--) {
            value = value * t + viridis[channel][i];
        }
        rgb[channel] = (uint8_t)lrint(255.0 * fmin(fmax(value, 0.0), 1.0));
    }
}
