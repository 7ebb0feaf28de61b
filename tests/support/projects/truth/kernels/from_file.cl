__kernel void scaled(__global const float *x, __global float *y, int n)
{
    y[get_global_id(0)] = x[get_global_id(0)] * 2;
}
