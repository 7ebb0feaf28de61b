/* Slope limiters for finite-volume reconstruction; included by reconstruct.cl. */
#ifndef SLOPES_H
#define SLOPES_H

inline float minmod(float left, float right)
{
    return left * right <= 0.0f ? 0.0f : (fabs(left) < fabs(right) ? left : right);
}

#endif
