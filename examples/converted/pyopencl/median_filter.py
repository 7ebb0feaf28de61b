"""Each pixel becomes the median of its neighbourhood; an image made here stands for the file."""

import numpy as np
import pyopencl as cl

import kcl


@kcl.kernel
def median():
    return kcl.Source(
        """
        void order(float *a, float *b)
        {
            const float low = fmin(*a, *b), high = fmax(*a, *b);
            *a = low;
            *b = high;
        }

        __kernel void median(
            __global const float *image, __global float *result, const int height, const int width)
        {
            const int y = get_global_id(0), x = get_global_id(1);
            float seen[9];
            for (int k = 0; k < 9; k++)
                seen[k] = image[clamp(y + k/3 - 1, 0, height - 1)*width + clamp(x + k%3 - 1, 0, width - 1)];
            for (int pass = 0; pass < 5; pass++)
                for (int k = 8; k > pass; k--)
                    order(&seen[k - 1], &seen[k]);
            result[y*width + x] = seen[4];
        }
        """,
        entry="median",
        arguments=[
            kcl.Array("image", np.float32, shape="(height, width)"),
            kcl.Array("result", np.float32, shape="(height, width)", direction="out"),
            kcl.Scalar("height", np.int32),
            kcl.Scalar("width", np.int32),
        ],
        global_size="(height, width)",
    )


context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
image = np.add.outer(np.arange(48), np.arange(64)).astype(np.float32)
image[np.random.default_rng(0).random(image.shape) < 0.1] = 255
event, (result,) = median()(queue, image=image)
windows = np.lib.stride_tricks.sliding_window_view(np.pad(image, 1, mode="edge"), (3, 3))
print(np.array_equal(result, np.median(windows, axis=(2, 3))), image.sum(), result.sum())
