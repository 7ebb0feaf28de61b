"""What a kernel of a kcl.Source takes beside arrays and numbers: SVM, images, samplers, and the sizes of a launch."""

import shutil

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest
from hot_calls import launcher_on

import kcl
from kcl import launch
from kcl.drivers.pocl import poclbin

NUMBERED = """
kernel void numbered(global int *x, int value, int n)
{
    x[get_global_id(0)] = 1000*value + 100*get_local_size(0) + 10*get_global_size(0) + get_global_offset(0);
}
"""
SAMPLED = """
kernel void sampled(read_only image2d_t picture, sampler_t how, write_only image2d_t other, global float *y)
{
    int i = get_global_id(0), j = get_global_id(1), width = get_image_width(picture);
    float4 pixel = read_imagef(picture, how, (int2)(i + 1, j));
    y[width*j + i] = pixel.x;
    write_imagef(other, (int2)(i, j), pixel + 1);
}
"""
ADDED = """
kernel void added(global const float *x, global float *y, int n) { y[get_global_id(0)] = x[get_global_id(0)] + 1; }
"""


@kcl.kernel
def numbered(global_size="n", local_size=None):
    scalars = [kcl.Scalar(name, np.int32) for name in ("value", "n")]
    arguments = [kcl.Array("x", np.int32, "n", "inout"), *scalars]
    sizes = {"global_size": global_size, "local_size": local_size}
    return kcl.Source(NUMBERED, entry="numbered", arguments=arguments, **sizes)


@kcl.kernel
def sampled():
    y = kcl.Array("y", np.float32, ("picture.height", "picture.width"), "out")
    other = kcl.Image("other", direction="out")
    arguments = [kcl.Image("picture"), kcl.Sampler("how"), other, y]
    sizes = ("picture.width", "picture.height")
    return kcl.Source(SAMPLED, entry="sampled", arguments=arguments, global_size=sizes)


@kcl.kernel
def added():
    arrays = [kcl.Array("x", np.float32, "n"), kcl.Array("y", np.float32, "n", "out")]
    arguments = [*arrays, kcl.Scalar("n", np.int32)]
    return kcl.Source(ADDED, entry="added", arguments=arguments, global_size="n")


@pytest.fixture
def images(queue):
    if not all(device.image_support for device in queue.context.devices):
        pytest.skip("this device has no images")


@pytest.fixture
def _hot(monkeypatch):
    """Play every call that can be played."""
    monkeypatch.setattr(launch, "HOT", 0)


def svm(queue, values):
    """Return fine- or coarse-grained SVM with these numbers, as pyopencl allocates it."""
    try:
        found = cl.SVMAllocation(queue.context, 4 * len(values), 4, cl.svm_mem_flags.READ_WRITE)
    except (cl.Error, AttributeError) as error:
        pytest.skip(f"this device has no SVM: {error}")
    cl.enqueue_copy(queue, found, np.array(values, np.float32))
    return found


def read(queue, memory):
    found = np.empty(memory.size // 4, np.float32)
    cl.enqueue_copy(queue, found, memory)
    return found.tolist()


def picture(queue, values, flags=cl.mem_flags.READ_WRITE, shape=None):
    array = np.ascontiguousarray(values, np.float32)
    image_format = cl.ImageFormat(cl.channel_order.R, cl.channel_type.FLOAT)
    found = cl.create_image(queue.context, flags, image_format, shape=shape or array.shape[::-1])
    if shape is None:
        cl.enqueue_copy(queue, found, array, origin=(0, 0), region=array.shape[::-1])
    return found


def sampler(queue, mode=cl.addressing_mode.CLAMP_TO_EDGE):
    return cl.Sampler(queue.context, False, mode, cl.filter_mode.NEAREST)


@pytest.mark.slow_platforms
class TestSVM:
    """SVM in the place of arrays whose shapes the scalars say."""

    def test_allocation(self, queue):
        """A kernel reads SVM and writes into SVM; the output is an array over the memory that was given."""
        x, y = svm(queue, [1, 2, 3, 4]), svm(queue, [0] * 4)
        for _ in range(2):
            event, (out,) = added()(queue, x=x, y=y, n=4)
            event.wait()
            assert out.base_data is y
            assert out.get(queue=queue).tolist() == read(queue, y) == [2, 3, 4, 5]

    def test_array_of_numpy(self, queue, platform_name):
        if platform_name == "nvidia":  # under pyopencl alone, too
            pytest.skip("a kernel object of NVIDIA takes SVM or buffers, not both")
        svm(queue, [0])
        x = cl.csvm_empty(queue.context, 4, np.float32)
        cl.enqueue_copy(queue, cl.SVM(x), np.arange(4, dtype=np.float32))
        _event, (y,) = added()(queue, x=cl.SVM(x), n=4)
        assert y.get(queue).tolist() == [1, 2, 3, 4]
        buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 16)
        added()(queue, x=np.ones(4, np.float32), y=buffer)[0].wait()
        assert read(queue, buffer) == [2] * 4


@pytest.mark.slow_platforms
@pytest.mark.usefixtures("images")
class TestImages:
    VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)
    SHIFTED = ((1, 2, 2), (4, 5, 5))

    def good(self, queue):
        images = {name: picture(queue, self.VALUES) for name in ("picture", "other")}
        return {**images, "how": sampler(queue)}

    def test_read_and_write(self, queue):
        """Sizes follow from the image; an image that is written is an output, the object that was given."""
        given, other = picture(queue, self.VALUES), picture(queue, np.zeros((2, 3)))
        kernel = sampled()
        for _ in range(2):
            event, (out, y) = kernel(queue, picture=given, how=sampler(queue), other=other)
            event.wait()
            assert out is other
            assert y.get(queue).tolist() == np.array(self.SHIFTED).tolist()
            host = np.empty((2, 3), np.float32)
            cl.enqueue_copy(queue, host, other, origin=(0, 0), region=(3, 2))
            assert host.tolist() == (np.array(self.SHIFTED) + 1).tolist()

    @pytest.mark.usefixtures("_hot")
    def test_never_another_one(self, queue):
        """Calls in turns take the image and the sampler that they are given, also where a handle was another's."""
        kernel = sampled()
        how = [sampler(queue), sampler(queue, cl.addressing_mode.CLAMP)]
        y = cl_array.zeros(queue, (2, 3), np.float32)
        other = picture(queue, np.zeros((2, 3)))
        for number in range(12):
            given = picture(queue, self.VALUES + number)
            kernel(queue, picture=given, how=how[number % 2], other=other, y=y)
            expected = np.array(self.SHIFTED) + number
            if number % 2:
                expected[:, 2] = 0  # the border
            assert y.get(queue).tolist() == expected.tolist()
            del given

    @pytest.mark.parametrize(
        ("name", "wrong", "words"),
        [
            ("picture", lambda _: np.zeros((2, 3), np.float32), "image2d_t, not of class ndarray"),
            ("picture", lambda queue: picture(queue, 0, shape=(2, 3, 2)), "2d_t, not of IMAGE3D"),
            ("how", lambda _: 3, "'how' is a pyopencl.Sampler, not of class int"),
            ("how", lambda queue: picture(queue, [[1]]), "a pyopencl.Sampler, not of class Image"),
        ],
    )
    def test_refused(self, queue, name, wrong, words):
        """What is no image of the type, or no sampler, is named with what is accepted; a right call goes on."""
        good = self.good(queue)
        kernel = sampled()
        for _ in range(2):
            with pytest.raises(TypeError, match=f"kernel 'sampled': .*{words}"):
                kernel(queue, **good | {name: wrong(queue)})
            kernel(queue, **good)

    def test_memory(self, queue):
        """An image of another context, and one that no kernel may write, are refused before the launch."""
        context = cl.Context(queue.context.devices)
        far = picture(cl.CommandQueue(context), self.VALUES)
        unwritable = picture(queue, 0, cl.mem_flags.READ_ONLY, (3, 2))
        for name, wrong, words in (
            ("picture", far, "'picture' is an image of another context"),
            ("other", unwritable, "'other' is written, .* READ_ONLY"),
        ):
            with pytest.raises(ValueError, match=f"kernel 'sampled': argument {words}"):
                sampled()(queue, **self.good(queue) | {name: wrong})


def expected(count, value, local, size, offset, whole=4):
    """Return what `numbered` leaves: zeros where it was not launched."""
    one = 1000 * value + 100 * local + 10 * size + offset
    return [one if offset <= i < offset + size else 0 for i in range(whole)][:count]


def zeros(queue):
    return cl_array.zeros(queue, 4, np.int32)


DECLARED = {"global_size": 4, "local_size": 4, "global_offset": 0}


@pytest.mark.slow_platforms
class TestLaunchSizes:
    @pytest.mark.parametrize(
        ("given", "local", "size", "offset"),
        [
            ({"local_size": 1}, 1, 4, 0),
            ({"local_size": (2,)}, 2, 4, 0),
            ({"global_size": 2, "local_size": 1}, 1, 2, 0),
            ({"global_size": [np.int64(2)], "local_size": np.int8(2), "global_offset": 1}, 2, 2, 1),
            ({"global_size": np.uint16(1), "local_size": 1, "global_offset": 3}, 1, 1, 3),
        ],
    )
    def test_given(self, queue, given, local, size, offset):
        """They replace what is declared, for this launch only."""
        kernel = numbered(local_size=4)
        for value in (1, 2):
            x = zeros(queue)
            kernel(queue, x=x, value=value, **given)
            assert x.get(queue).tolist() == expected(4, value, local, size, offset)
            x = zeros(queue)
            kernel(queue, x=x, value=value)
            assert x.get(queue).tolist() == expected(4, value, 4, 4, 0)

    def test_none(self, queue):
        """None stands for what is declared; an empty global size launches nothing."""
        x, kernel = zeros(queue), numbered(local_size=2)
        kernel(queue, x=x, value=1, global_size=None, local_size=None, global_offset=None)
        assert x.get(queue).tolist() == expected(4, 1, 2, 4, 0)
        x = zeros(queue)
        kernel(queue, x=x, value=1, global_size=0)
        assert x.get(queue).tolist() == [0] * 4

    def test_not_declared(self, queue):
        """Without a declared global size each call gives one, and the error says so."""
        kernel = numbered(global_size=None)
        words = "kernel 'numbered': global_size is not declared: give it in the call"
        with pytest.raises(TypeError, match=words):
            kernel(queue, x=zeros(queue), value=1)
        x = zeros(queue)
        kernel(queue, x=x, value=1, global_size=4, local_size=2)
        assert x.get(queue).tolist() == expected(4, 1, 2, 4, 0)

    def test_local_memory(self, queue):
        """Local memory grows with the local size of the call."""

        @kcl.kernel
        def turned():
            code = """
            kernel void turned(global int *x, local int *part)
            {
                int i = get_global_id(0), j = get_local_id(0), size = get_local_size(0);
                part[j] = x[i];
                barrier(CLK_LOCAL_MEM_FENCE);
                x[i] = part[size - 1 - j];
            }
            """
            part = kcl.Local("part", np.int32, "local_size[0]")
            arguments = [kcl.Array("x", np.int32, 8, "inout"), part]
            return kcl.Source(code, entry="turned", arguments=arguments, global_size=8)

        kernel, x = turned(), np.arange(8, dtype=np.int32)
        words = r"'part' follows from local_size: give it, local_size=\(...\)"
        with pytest.raises(TypeError, match=words):
            kernel(queue, x=x)
        for size in (2, 4, 8):
            _event, (found,) = kernel(queue, x=x.copy(), local_size=size)
            assert found.tolist() == x.reshape(-1, size)[:, ::-1].ravel().tolist()

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"global_size": 4.0}, "global_size is a number .* 0 or more, .* at most three, not"),
            ({"local_size": (1, 1, 1, 1)}, "local_size is a number of .* not the tuple"),
            ({"local_size": (2, 0)}, "local_size is a number of .* 1 or more, .* not the tuple"),
            ({"global_offset": -1}, "global_offset is a number of .* not the int -1"),
            ({"globl_size": 4}, r"'globl_size' \(did you .* 'local_size'\?\); .*global_offset"),
            ({"local_size": (1, 1)}, r"with local_size=\(1, 1\): .*differing dimensions"),
            ({"local_size": 3}, r"with global_size=\(4,\), local_size=\(3,\): 4 is no multiple"),
            ({"global_offset": (1, 1)}, r"with global_offset=\(1, 1\)"),
        ],
    )
    def test_refused(self, queue, given, words):
        """A size that no launch takes is named with its value; the next call is right, and no cache has a fault."""
        kernel = numbered()
        for _ in range(2):
            with pytest.raises((TypeError, cl.Error), match=f"kernel 'numbered'.* {words}"):
                kernel(queue, x=zeros(queue), value=1, **given)
            x = zeros(queue)
            kernel(queue, x=x, value=1, local_size=1)
            assert x.get(queue).tolist() == expected(4, 1, 1, 4, 0)
        assert kcl.stats()["generator"]["errors"] == kcl.stats()["binary"]["errors"] == 0

    @pytest.mark.one_platform
    def test_no_group(self, queue):
        """A local size that is declared and comes out as zero is refused: PoCL would launch nothing."""
        words = r"local_size is \(0,\), and each axis of a group has 1 work-item or more"
        with pytest.raises(ValueError, match=words):
            numbered(local_size="n//8")(queue, x=zeros(queue), value=1)

    @pytest.mark.one_platform
    def test_of_loopy(self, queue):
        """loopy knows the sizes of its kernels; an argument of that name is an ordinary one."""

        @kcl.kernel
        def scaled(name):
            import loopy as lp

            factor = lp.ValueArg(name, np.float32)
            return lp.make_kernel("{[i]: 0<=i<4}", f"y[i] = {name}*i", [factor, ...])

        words = "kernel 'scaled': loopy finds the sizes of its kernels; leave local_size out"
        with pytest.raises(TypeError, match=words):
            scaled("a")(queue, a=2, local_size=4)
        _event, (y,) = scaled("local_size")(queue, local_size=2, out_host=True)
        assert y.tolist() == [0, 2, 4, 6]


@pytest.mark.slow_platforms
@pytest.mark.usefixtures("_hot")
class TestPlayed:
    SIZES = (
        {},
        {"local_size": (1,)},
        {"global_size": (2,), "local_size": (1,)},
        {"global_size": (2,), "local_size": (2,)},
        {"global_size": (2,), "local_size": (1,), "global_offset": (2,)},
        {"global_size": (2,), "local_size": (1,), "global_offset": (1,)},
        {"global_size": 2, "local_size": 1, "global_offset": 1},
        {"global_size": [2], "local_size": [2]},
    )

    def test_same_arrays_other_sizes(self, queue):
        kernel, x = numbered(local_size=4), zeros(queue)
        for value, given in enumerate(self.SIZES * 4):
            x.fill(0)
            kernel(queue, x=x, value=value, **given)
            size, local, offset = (
                np.ravel(given.get(name, declared))[0] for name, declared in DECLARED.items()
            )
            assert x.get(queue).tolist() == expected(4, value, local, size, offset), given
        plays = launcher_on(queue).plays.values()
        assert sum(play is not None for play in plays) == 4  # by the names that are given

    def test_equal_is_not_the_same(self, queue):
        """A float that equals a size that was played is refused as it is at first."""
        kernel, x = numbered(local_size=4), zeros(queue)
        for _ in range(3):
            kernel(queue, x=x, value=1, global_size=(2,), local_size=(1,))
            assert launcher_on(queue).hot is not None
            for wrong in ((2.0,), (np.float32(2),), 2.0):
                with pytest.raises(TypeError, match="global_size is a number of work-items"):
                    kernel(queue, x=x, value=1, global_size=wrong, local_size=(1,))

    def test_buffer_after_array(self, queue):
        """A call with a buffer does not come to a function that plays arrays, whose memory it was."""
        kernel, y = added(), cl_array.zeros(queue, 4, np.float32)
        x, other = (cl_array.to_device(queue, np.full(4, value, np.float32)) for value in (1, 5))
        for _ in range(3):
            kernel(queue, x=x, y=y, n=4)
            assert y.get(queue).tolist() == [2] * 4
            kernel(queue, x=other.base_data, y=y, n=4)
            assert y.get(queue).tolist() == [6] * 4

    def test_bound(self, queue):
        kernel, x = numbered(local_size=4), zeros(queue)
        sizes = {"global_size": (4,), "global_offset": (0,), "local_size": (1,)}
        bound = kernel.bind(queue, x=x, value=1, **sizes)
        for value, size, offset in ((1, 4, 0), (2, 2, 1), (3, 1, 3), (4, 4, 0)):
            x.fill(0)
            given = {**sizes, "global_size": (size,), "global_offset": (offset,)}
            bound(x=x, value=value, **given).wait()
            assert x.get(queue).tolist() == expected(4, value, 1, size, offset)
        with pytest.raises(TypeError, match="global_size is a number of work-items"):
            bound(x=x, value=1, **{**sizes, "global_size": (2.0,)})


GIVEN = """
import sys
import numpy as np
import kcl
from opened import queue_on

@kcl.kernel
def twice():
    text = "kernel void twice(global float *x, int n) { x[get_global_id(0)] *= 2; }"
    arguments = [kcl.Array("x", np.float32, "n", "inout"), kcl.Scalar("n", np.int32)]
    return kcl.Source(text, entry="twice", arguments=arguments)

queue, kernel = queue_on(sys.argv[1]), twice()
for size, offset in ((16, None), (32, None), (16, 32)):
    event, (x,) = kernel(queue, x=np.ones(64, np.float32), global_size=32, local_size=size, global_offset=offset)
    assert x.sum() == 96
    if size == 16 and offset is None:
        kcl.flush()  # the entry is completed for the size of this launch
"""


def test_later_sizes_are_completed(project, platform_name):
    """The entry of the first run gets the code of every size, offsets included: PoCL compiles nothing in the next."""
    if platform_name != "pocl":
        pytest.skip("only PoCL's entries are completed by a helper")
    child, words = project.child, ("-c", GIVEN, project.platform)
    child.finished(*words)
    project.finish()
    _address, entry = project.binary_of("twice")
    code = poclbin.read(entry.parts["binary"]).code()
    assert len(code) == 3, list(code)
    shutil.rmtree(child.cache / "pocl")
    second = child.finished(*words, KCL_REPORT="1", KCL_STRICT="hit")
    assert "partial" not in second.stderr
    assert len(list((child.cache / "pocl" / "kcache").rglob("*.so"))) == 3
