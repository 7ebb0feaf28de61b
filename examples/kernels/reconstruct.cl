/* Value of a limited linear reconstruction at the right face of every cell of a periodic grid. */
#include "slopes.h"

__kernel void reconstruct(__global const float *u, __global float *face, const int n)
{
    const int i = get_global_id(0);
    if (i >= n)
        return;
    const float middle = u[i];
    const float left = middle - u[(i + n - 1) % n];
    const float right = u[(i + 1) % n] - middle;
    face[i] = middle + 0.5f * minmod(left, right);
}
